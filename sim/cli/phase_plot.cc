#include "cli/phase_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace kvtide::cli {

std::string phase_plot(std::span<const double> values, std::size_t width, std::size_t height) {
  constexpr std::array kEighths{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  // Equally many phases a column: the largest of two stands higher than one alone where both are noise.
  const std::size_t phases_a_column = values.empty() ? 1 : (values.size() + width - 1) / width;
  const std::size_t columns = (values.size() + phases_a_column - 1) / phases_a_column;
  std::vector<double> tops(columns, 0.0);
  for (std::size_t phase = 0; phase < values.size(); ++phase) {
    double& top = tops[phase / phases_a_column];
    if (std::isfinite(values[phase])) top = std::max(top, values[phase]);
  }
  const double highest = columns == 0 ? 0 : *std::ranges::max_element(tops);
  std::string out;
  for (std::size_t line = height; line-- > 0;) {
    const double label = highest * static_cast<double>(line + 1) / static_cast<double>(height);
    out += fmt::format("{:6.3f} |", label);
    for (const double top : tops) {
      const double filled = highest > 0 ? top / highest * static_cast<double>(height) - static_cast<double>(line) : 0;
      out += kEighths[static_cast<std::size_t>(std::lround(std::clamp(filled, 0.0, 1.0) * 8))];
    }
    out += "\n";
  }
  std::string axis = "0";
  const std::string last = fmt::format("{}", values.empty() ? 0 : values.size() - 1);
  axis += std::string(columns > last.size() + 1 ? columns - last.size() - 1 : 1, ' ') + last;
  return out + std::string(7, ' ') + "+" + std::string(columns, '-') + "\n" + std::string(8, ' ') + axis + "\n";
}

}  // namespace kvtide::cli

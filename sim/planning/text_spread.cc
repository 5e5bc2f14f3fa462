#include "planning/text_spread.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "base/data_directory.h"
#include "base/error.h"
#include "config/csv_table.h"

namespace kvtide::planning {

TextSpread parse_text_spread(const std::string& text, const std::string& name) {
  std::string rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) rows += (line.starts_with('#') ? "" : line) + "\n";
  const config::CsvTable table = config::CsvTable::parse(rows, name);
  std::optional<TextSpread> spread;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    const auto count = [&] { return static_cast<int>(table.integer(row, "texts", 1, 1'000'000)); };
    const std::string& figure = table.text(row, "figure");
    if (figure == "mean") {
      const auto number = [&](const char* column) { return table.number(row, column, 1e-9, 1e9); };
      const double median = number("median");
      spread = TextSpread{.texts = count(), .low = number("low") / median, .high = number("high") / median};
    } else if (figure == "lost_by_layer" && spread) {
      spread->layers = count();
      spread->layer_low = table.number(row, "low", 0, 1);
      spread->layer_high = table.number(row, "high", 0, 1);
    }
  }
  if (!spread) throw InputError(fmt::format("{}: no row of the mean", name));
  return *spread;
}

std::optional<TextSpread> measured_text_spread() {
  const std::string path = data_directory() + "/analysis/kvtide_analysis/assets/text-spread.csv";
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return parse_text_spread(text.str(), path);
}

std::string text_spread_sentence() {
  const std::optional<TextSpread> spread = measured_text_spread();
  if (!spread) return "";
  std::string sentence = fmt::format(
      "from one text: between {} texts a real 135M model's mean loss was {:.1f} to {:.1f} times the median's (80 % of "
      "them)",
      spread->texts, spread->low, spread->high);
  if (spread->layers > 0) {
    sentence += fmt::format(", and its {} layers that read the answer lost {:.0f} to {:.0f} % of that", spread->layers,
                            100 * spread->layer_low, 100 * spread->layer_high);
  }
  return sentence;
}

}  // namespace kvtide::planning

#include "planning/text_spread.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include "base/data_directory.h"
#include "base/error.h"

namespace kvtide::planning {
namespace {

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
  return cells;
}

}  // namespace

TextSpread parse_text_spread(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  std::vector<std::string> header;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    const std::vector<std::string> cells = cells_of(line);
    if (header.empty()) {
      header = cells;
      continue;
    }
    const auto cell = [&](const std::string& column) -> std::string {
      for (std::size_t i = 0; i < std::min(header.size(), cells.size()); ++i) {
        if (header[i] == column) return cells[i];
      }
      throw InputError(fmt::format("{}: no column {}", name, column));
    };
    if (cell("figure") != "mean") continue;
    const auto number = [&](const char* column) {
      const double value = std::atof(cell(column).c_str());
      if (!(value > 0)) throw InputError(fmt::format("{}: {}: expected a number above 0", name, column));
      return value;
    };
    const double median = number("median");
    return {.texts = static_cast<int>(number("texts")), .low = number("low") / median, .high = number("high") / median};
  }
  throw InputError(fmt::format("{}: no row of the mean", name));
}

std::optional<TextSpread> measured_text_spread() {
  const std::string path = data_directory() + "/analysis/kvtide_analysis/assets/text-spread.csv";
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return parse_text_spread(text.str(), path);
}

}  // namespace kvtide::planning

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
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    if (table.text(row, "figure") != "mean") continue;
    const auto number = [&](const char* column) { return table.number(row, column, 1e-9, 1e9); };
    const double median = number("median");
    return {.texts = static_cast<int>(table.integer(row, "texts", 1, 1'000'000)),
            .low = number("low") / median,
            .high = number("high") / median};
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

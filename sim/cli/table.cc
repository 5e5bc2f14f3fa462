#include "cli/table.h"

#include <algorithm>
#include <numeric>

namespace kvtide::cli {

std::size_t display_width(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    std::size_t width = display_width(columns_[column].title);
    for (const auto& row : rows_) width = std::max(width, display_width(row[column]));
    widths.push_back(width);
  }
  return widths;
}

std::size_t Table::width() const {
  const std::vector<std::size_t> of = widths();
  return std::accumulate(of.begin(), of.end(), 2 * (std::max<std::size_t>(1, of.size()) - 1));
}

std::string Table::text() const {
  const std::vector<std::size_t> widths = this->widths();
  const auto line = [&](const auto& cell_of) {
    std::string out;
    for (std::size_t column = 0; column < columns_.size(); ++column) {
      const std::string cell = cell_of(column);
      const std::string padding(widths[column] - display_width(cell), ' ');
      if (column > 0) out += "  ";
      out += columns_[column].align == Align::right ? padding + cell : cell + padding;
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out + "\n";
  };
  std::string out = line([&](std::size_t column) { return columns_[column].title; });
  out += line([&](std::size_t column) { return std::string(widths[column], '-'); });
  for (const auto& row : rows_) out += line([&](std::size_t column) { return row[column]; });
  return out;
}

}  // namespace kvtide::cli

#pragma once
// Text tables for terminals: aligned columns, one space of padding, no drawing characters to copy around.

#include <cstddef>
#include <string>
#include <vector>

namespace kvtide::cli {

enum class Align : unsigned char { left, right };

class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::left;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// @param cells  one per column, UTF-8
  void add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Title line, a rule, the rows; every line ends with a newline. Widths count code points.
  [[nodiscard]] std::string text() const;
  /// Code points of the rule, the longest line.
  [[nodiscard]] std::size_t width() const;

 private:
  [[nodiscard]] std::vector<std::size_t> widths() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Columns that `text` takes on a terminal, one per UTF-8 code point.
[[nodiscard]] std::size_t display_width(const std::string& text);

}  // namespace kvtide::cli

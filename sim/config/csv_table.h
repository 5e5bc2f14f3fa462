#pragma once
// Comma-separated measurements with a header row, read strictly: every row has every column, every cell its type.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvtide::config {

/// A whole file as text cells. Cells are split at commas; quoted cells are refused, because none of the files that we
/// read has them and a silent split inside quotes would shift every column behind.
class CsvTable {
 public:
  /// @throws InputError  no such file, larger than 1 GiB, no header, a name given twice, a row of another width, a quote
  [[nodiscard]] static CsvTable load(const std::string& path);
  /// @param origin  shown in messages instead of a file name
  [[nodiscard]] static CsvTable parse(std::string_view text, const std::string& origin);

  [[nodiscard]] const std::string& origin() const { return origin_; }
  [[nodiscard]] const std::vector<std::string>& columns() const { return columns_; }
  [[nodiscard]] std::size_t num_rows() const { return rows_.size(); }

  // Cells of `column`. @throws InputError naming file, line and column: unknown column, not a number, out of range
  [[nodiscard]] const std::string& text(std::size_t row, std::string_view column) const;
  [[nodiscard]] std::int64_t integer(std::size_t row, std::string_view column, std::int64_t min,
                                     std::int64_t max) const;
  [[nodiscard]] double number(std::size_t row, std::string_view column, double min, double max) const;
  /// The row as it stood in the file.
  [[nodiscard]] const std::string& line(std::size_t row) const { return rows_[row].line; }

 private:
  struct Row {
    std::string line;
    std::vector<std::string> cells;
    std::size_t line_number = 0;
  };
  std::string origin_;
  std::vector<std::string> columns_;
  std::vector<Row> rows_;
};

}  // namespace kvtide::config

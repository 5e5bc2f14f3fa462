#include "config/csv_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/whole_file.h"

namespace kvtide::config {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 30;
// Every cell is a text of its own: as many as this take about 2 GiB where each stands on its own line.
constexpr std::size_t kMaxCells = std::size_t{1} << 24;

/// Cells of a line; one in quotes may hold commas, and "" for a quote (RFC 4180, 2.5 to 2.7).
/// @return empty where such a cell does not end on the line, or goes on behind its quotes
std::vector<std::string> split(std::string_view line) {
  std::vector<std::string> cells;
  std::size_t at = 0;
  while (true) {
    std::string cell;
    if (at < line.size() && line[at] == '"') {
      bool is_closed = false;
      for (++at; at < line.size() && !is_closed; ++at) {
        const bool is_doubled = line.substr(at).starts_with("\"\"");
        is_closed = line[at] == '"' && !is_doubled;
        if (is_doubled) ++at;
        if (!is_closed) cell += line[at];
      }
      if (!is_closed || (at < line.size() && line[at] != ',')) return {};
    } else {
      const std::size_t comma = std::min(line.find(',', at), line.size());
      cell = line.substr(at, comma - at);
      at = comma;
    }
    cells.push_back(std::move(cell));
    if (at == line.size()) return cells;
    ++at;
  }
}

}  // namespace

CsvTable CsvTable::load(const std::string& path) {
  return parse(read_whole_file(path, kMaxFileBytes, "a table"), path);
}

CsvTable CsvTable::parse(std::string_view text, const std::string& origin) {
  CsvTable table;
  table.origin_ = origin;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // UTF-8 byte order mark, as spreadsheets write it
  std::size_t line_number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    std::vector<std::string> cells = split(line);
    if (cells.empty()) {
      throw InputError(
          fmt::format("{}:{}: a quoted cell does not end before a comma or the line's end", origin, line_number));
    }
    if (table.columns_.empty()) {
      std::set<std::string_view> names;
      for (const std::string& cell : cells) {
        if (!names.insert(cell).second) {
          throw InputError(fmt::format("{}:{}: column \"{}\" is named twice", origin, line_number, cell));
        }
      }
      table.columns_ = std::move(cells);
      continue;
    }
    if (cells.size() != table.columns_.size()) {
      throw InputError(fmt::format("{}:{}: {} cells, but the header names {} columns", origin, line_number,
                                   cells.size(), table.columns_.size()));
    }
    if ((table.rows_.size() + 1) * cells.size() > kMaxCells) {
      throw InputError(fmt::format("{}:{}: more than {} cells, the limit for a table", origin, line_number, kMaxCells));
    }
    table.rows_.push_back({std::string(line), std::move(cells), line_number});
  }
  if (table.columns_.empty()) throw InputError(fmt::format("{}: empty; expected a header row", origin));
  return table;
}

const std::string& CsvTable::text(std::size_t row, std::string_view column) const {
  const auto place = std::find(columns_.begin(), columns_.end(), column);
  if (place == columns_.end()) {
    throw InputError(fmt::format("{}: no column \"{}\" (columns: {})", origin_, column, fmt::join(columns_, ", ")));
  }
  return rows_[row].cells[static_cast<std::size_t>(place - columns_.begin())];
}

std::int64_t CsvTable::integer(std::size_t row, std::string_view column, std::int64_t min, std::int64_t max) const {
  const std::string& cell = text(row, column);
  std::int64_t value = 0;
  const auto [rest, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc{} || rest != cell.data() + cell.size() || value < min || value > max) {
    throw InputError(fmt::format("{}:{}: {}: expected an integer in {}..{}, got \"{}\"", origin_,
                                 rows_[row].line_number, column, min, max, cell));
  }
  return value;
}

double CsvTable::number(std::size_t row, std::string_view column, double min, double max) const {
  const std::string& cell = text(row, column);
  double value = 0;
  const auto [rest, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc{} || rest != cell.data() + cell.size() || !(value >= min && value <= max)) {
    throw InputError(fmt::format("{}:{}: {}: expected a number in {}..{}, got \"{}\"", origin_, rows_[row].line_number,
                                 column, min, max, cell));
  }
  return value;
}

}  // namespace kvtide::config

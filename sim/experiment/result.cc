#include "experiment/result.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "experiment/columns.h"

namespace kvtide::experiment {
namespace {

/// "loss/position" -> "loss/", "position" -> "".
std::string group_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

bool is_plain_path(const std::string& path) {
  if (path.empty() || path.front() == '/' || path.back() == '/' || path.find("//") != std::string::npos) return false;
  return std::ranges::all_of(
      path, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '/'; });
}

std::size_t length_of(const auto& variant) {
  return std::visit([](const auto& values) { return values.size(); }, variant);
}

}  // namespace

std::string to_string(RunStatus status) {
  return status == RunStatus::ok ? "ok" : "failed";
}

std::size_t ResultDimension::size() const {
  return length_of(values);
}
std::size_t ResultArray::size() const {
  return length_of(values);
}

RunResult RunResult::failure(std::string reason) {
  RunResult result;
  result.status = RunStatus::failed;
  result.status_reason = std::move(reason);
  // One line, and no NUL: it becomes a cell of a table and an HDF5 text.
  std::ranges::replace(result.status_reason, '\n', ' ');
  std::ranges::replace(result.status_reason, '\0', ' ');
  return result;
}

std::vector<std::string> defects(const RunResult& result) {
  std::vector<std::string> found;
  std::map<std::string, std::size_t> sizes;
  std::set<std::string> paths;
  for (const ResultDimension& dimension : result.dimensions) {
    if (!is_plain_path(dimension.path))
      found.push_back(fmt::format("\"{}\" is not a path like loss/position", dimension.path));
    if (!paths.insert(dimension.path).second) found.push_back(fmt::format("{} occurs twice", dimension.path));
    sizes[dimension.path] = dimension.size();
  }
  for (const ResultArray& array : result.arrays) {
    if (!is_plain_path(array.path))
      found.push_back(fmt::format("\"{}\" is not a path like loss/mass_loss", array.path));
    if (!paths.insert(array.path).second) found.push_back(fmt::format("{} occurs twice", array.path));
    std::size_t product = 1;
    for (const std::string& dimension : array.dimensions) {
      const auto size = sizes.find(dimension);
      if (size == sizes.end()) {
        found.push_back(fmt::format("{} has the unknown dimension {}", array.path, dimension));
        continue;
      }
      if (!group_of(array.path).starts_with(group_of(dimension))) {
        found.push_back(
            fmt::format("{}: dimension {} lies neither in its group nor in an ancestor", array.path, dimension));
      }
      product *= size->second;
    }
    if (product != array.size()) {
      found.push_back(fmt::format("{} holds {} values, its dimensions {}", array.path, array.size(), product));
    }
  }
  for (const auto& [name, value] : result.numbers) {
    const Column* column = find_column(name);
    if (column == nullptr || column->type != ColumnType::number)
      found.push_back(fmt::format("{} is not a number column", name));
  }
  for (const auto& [name, value] : result.texts) {
    const Column* column = find_column(name);
    if (column == nullptr || column->type != ColumnType::text)
      found.push_back(fmt::format("{} is not a text column", name));
  }
  return found;
}

}  // namespace kvtide::experiment

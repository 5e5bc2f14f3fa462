#include "serving/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "base/error.h"
#include "base/lower_case.h"
#include "config/csv_table.h"
#include "serving/simulated_time.h"

namespace kvtide::serving {
namespace {

constexpr std::int64_t kMaxTokens = std::int64_t{1} << 30;
constexpr std::size_t kMaxIds = 1'000'000;                   // of a request
constexpr std::size_t kMaxIdsOfFile = std::size_t{1} << 26;  // 0.5 GiB
constexpr std::int64_t kMaxPriority = 1'000'000;

struct IdColumn {
  const char* name;
  std::int64_t tokens;
};
constexpr IdColumn kIdColumns[] = {{"hash_blocks", 512}, {"shared_prefix_blocks", 16}, {"shared_prefix_block_ids", 16}};

/// Times under another name, or in another unit, would be taken for none.
void check_times(const config::CsvTable& table, const std::string& path) {
  for (const std::string& column : table.columns()) {
    const std::string name = lower_case(column);
    if (name.find("arriv") == std::string::npos && !name.starts_with("time")) continue;
    throw InputError(fmt::format(
        "{}:1: no column arrival_s, but {}: expected arrival_s, seconds from the first request, or no times", path,
        column));
  }
}

}  // namespace

std::vector<std::uint64_t> parse_block_ids(const std::string& text, std::size_t most) {
  std::vector<std::uint64_t> ids;
  std::uint64_t count = 0;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::uint64_t first = 0, last = 0;
    const char* const end = word.data() + word.size();
    auto [rest, error] = std::from_chars(word.data(), end, first);
    last = first;
    if (error == std::errc{} && rest != end && *rest == '-') {
      const auto second = std::from_chars(rest + 1, end, last);
      rest = second.ptr;
      error = second.ec;
    }
    if (error != std::errc{} || rest != end || last < first || last - first >= kMaxIds - count) {
      throw InputError(fmt::format("expected block ids like \"0-3 7\", at most {}, got \"{}\"", kMaxIds, word));
    }
    for (std::uint64_t id = first; id <= last && ids.size() < most; ++id) ids.push_back(id);
    count += last - first + 1;
  }
  return ids;
}

RequestTrace load_requests(const std::string& path, const std::string& arrival_column) {
  const config::CsvTable table = config::CsvTable::load(path);
  const auto has_column = [&table](const std::string& name) {
    return std::ranges::find(table.columns(), name) != table.columns().end();
  };
  if (!has_column(arrival_column)) {
    if (arrival_column != "arrival_s") throw InputError(fmt::format("{}: no column {}", path, arrival_column));
    check_times(table, path);
  }
  RequestTrace trace;
  std::string ids_column;
  for (const IdColumn& column : kIdColumns) {
    if (!has_column(column.name)) continue;
    ids_column = column.name;
    trace.shared_block_tokens = column.tokens;
  }
  const bool has_priority = has_column("priority");
  std::size_t num_ids = 0;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    Request request;
    if (has_column(arrival_column)) {
      request.arrival = from_seconds(table.number(row, arrival_column, 0, kMaxSeconds));
    }
    request.input_tokens = table.integer(row, "input_tokens", 1, kMaxTokens);
    request.output_tokens = table.integer(row, "output_tokens", 1, kMaxTokens);
    if (!ids_column.empty()) {
      try {
        const std::int64_t blocks = ceil_div(request.input_tokens, trace.shared_block_tokens);
        request.shared_blocks = parse_block_ids(table.text(row, ids_column), static_cast<std::size_t>(blocks));
        num_ids += request.shared_blocks.size();
        if (num_ids > kMaxIdsOfFile) throw InputError(fmt::format("more than {} block ids so far", kMaxIdsOfFile));
      } catch (const InputError& error) {
        throw InputError(fmt::format("{}:{}: {}: {}", path, row + 2, ids_column, error.what()));
      }
    }
    if (has_priority) request.priority = table.integer(row, "priority", -kMaxPriority, kMaxPriority);
    request.line = static_cast<std::int64_t>(row) + 2;
    trace.requests.push_back(std::move(request));
  }
  if (trace.requests.empty()) throw InputError(fmt::format("{}: holds no request", path));
  std::ranges::stable_sort(trace.requests, {}, &Request::arrival);
  return trace;
}

}  // namespace kvtide::serving

#include "loss/validation/measured_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/quoted_text.h"
#include "config/csv_table.h"
#include "hdf5/hdf5_file.h"

namespace kvtide::loss {
namespace {

constexpr std::int64_t kMaxTokens = 1 << 20;
constexpr std::int64_t kMaxKey = 1'000'000'000;
constexpr std::int64_t kMaxBlock = 65536;
constexpr double kSmallestLogProbability = -1e6;

const std::string& one_of(const config::CsvTable& table, std::size_t row, std::string_view column,
                          const std::vector<std::string>& allowed) {
  const std::string& found = table.text(row, column);
  if (std::ranges::find(allowed, found) == allowed.end()) {
    throw InputError(fmt::format("{}: row {}: {}: expected one of {}, got {}", table.origin(), row + 1, column,
                                 fmt::join(allowed, ", "), quoted_text(found)));
  }
  return found;
}

std::string scan_of(const hdf5::InputFile& prompts, const config::CsvTable& table, bool has_prefix) {
  if (has_prefix) return "prefix";
  std::set<std::int64_t> starts;
  std::int64_t length = 0;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    starts.insert(table.integer(row, "probe_start", 0, kMaxKey));
    length = std::max(length, table.integer(row, "context_len", 1, kMaxTokens));
  }
  for (const std::string& group : prompts.children("/")) {
    const std::string contexts = fmt::format("/{}/context_ids", group);
    if (!prompts.is_group("/" + group) || !prompts.exists(contexts)) continue;
    const auto shape = prompts.info(contexts).shape;
    if (shape.size() != 2 || static_cast<std::int64_t>(shape[1]) != length) continue;
    const std::vector<std::int64_t> held = prompts.read_integers(fmt::format("/{}/probe_start", group));
    const std::set<std::int64_t> known(held.begin(), held.end());
    if (std::ranges::includes(known, starts)) return group;
  }
  throw InputError(fmt::format("{}: no group of {} holds its prompts (contexts of {} tokens, {} values of probe_start)",
                               table.origin(), prompts.path(), length, starts.size()));
}

}  // namespace

std::vector<MeasuredRow> load_measured_scans(const std::string& prompts, const std::vector<std::string>& files) {
  const hdf5::InputFile prompt_file(prompts);
  std::vector<MeasuredRow> rows;
  for (const std::string& path : files) {
    const config::CsvTable table = config::CsvTable::load(path);
    const auto has = [&](std::string_view column) {
      return std::ranges::find(table.columns(), column) != table.columns().end();
    };
    const bool has_prefix = has("prefix_len");
    const std::string scan = scan_of(prompt_file, table, has_prefix);
    for (std::size_t row = 0; row < table.num_rows(); ++row) {
      MeasuredRow measured;
      MeasuredSetting& setting = measured.setting;
      setting.scan = scan;
      setting.time = one_of(table, row, "mode", {"agnostic", "aware"}) == "aware" ? CompressionTime::aware
                                                                                  : CompressionTime::agnostic;
      setting.policy = one_of(table, row, "policy", {"evict", "pool_postrope", "pool_prerope", "int2", "int4"});
      setting.block = table.integer(row, "block", 1, kMaxBlock);
      setting.removed_ppm = std::llround(table.number(row, "ratio", 0, 0.999999) * 1e6);
      setting.head_scope = one_of(table, row, "head_scope", {"head", "shared", "all"});
      measured.prompt = table.integer(row, has_prefix ? "prefix_len" : "probe_start", 0, kMaxKey);
      measured.loss = table.number(row, "logp_full", kSmallestLogProbability, 0) -
                      table.number(row, "logp_comp", kSmallestLogProbability, 0);
      measured.is_failing = table.integer(row, "em_comp", 0, 1) == 0;
      if (has("grid_offset")) measured.grid_offset = table.integer(row, "grid_offset", 0, kMaxBlock);
      if (has("kind")) measured.kind = table.text(row, "kind");
      if (has("right_tokens")) measured.right_tokens = table.integer(row, "right_tokens", 0, kMaxTokens);
      rows.push_back(std::move(measured));
    }
  }
  return rows;
}

}  // namespace kvtide::loss

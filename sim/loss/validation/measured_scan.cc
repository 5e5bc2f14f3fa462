#include "loss/validation/measured_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/quoted_text.h"
#include "config/csv_table.h"
#include "hdf5/child_trial.h"
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

/// One scan's prompts: contexts of one length, and where in each the probed fact starts.
struct PromptGroup {
  std::string name;
  std::int64_t length = 0;  ///< of a context, tokens
  std::set<std::int64_t> starts;
};

/// In the order of names; groups laid out otherwise are of no scan by position.
std::vector<PromptGroup> read_groups(const std::string& path) {
  const hdf5::InputFile file(path);
  std::vector<PromptGroup> groups;
  for (const std::string& name : file.children("/")) {
    const std::string contexts = fmt::format("/{}/context_ids", name);
    const std::string starts = fmt::format("/{}/probe_start", name);
    if (!file.is_group("/" + name) || !file.exists(contexts) || !file.exists(starts)) continue;
    const std::vector<std::uint64_t> shape = file.info(contexts).shape;
    if (shape.size() != 2 || shape[1] > kMaxTokens) continue;
    const std::vector<std::int64_t> held = file.read_integers(starts);
    groups.push_back({name, static_cast<std::int64_t>(shape[1]), {held.begin(), held.end()}});
  }
  return groups;
}

std::string scan_of(const std::vector<PromptGroup>& groups, const std::string& prompts, const config::CsvTable& table,
                    bool has_prefix) {
  if (has_prefix) return "prefix";
  std::set<std::int64_t> starts;
  std::int64_t length = 0;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    starts.insert(table.integer(row, "probe_start", 0, kMaxKey));
    length = std::max(length, table.integer(row, "context_len", 1, kMaxTokens));
  }
  for (const PromptGroup& group : groups) {
    if (group.length == length && std::ranges::includes(group.starts, starts)) return group.name;
  }
  throw InputError(fmt::format("{}: no group of {} holds its prompts (contexts of {} tokens, {} values of probe_start)",
                               table.origin(), prompts, length, starts.size()));
}

}  // namespace

std::vector<MeasuredRow> load_measured_scans(const std::string& prompts, const std::vector<std::string>& files) {
  hdf5::require_trial(prompts, [&] { (void)read_groups(prompts); });
  const std::vector<PromptGroup> groups = read_groups(prompts);
  std::vector<MeasuredRow> rows;
  for (const std::string& path : files) {
    const config::CsvTable table = config::CsvTable::load(path);
    const auto has = [&](std::string_view column) {
      return std::ranges::find(table.columns(), column) != table.columns().end();
    };
    const bool has_prefix = has("prefix_len");
    const std::string scan = scan_of(groups, prompts, table, has_prefix);
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

#include "gpu/attention_kernel.h"

#include <algorithm>

#include "base/data_directory.h"
#include "gpu/fact_reader.h"

namespace kvtide::gpu {
namespace {

using config::Value;

constexpr std::int64_t kMaxCount = 65536;
constexpr std::int64_t kEntriesOfABlock = 128;  // TensorRT-LLM, kMinHistoryTokensPerBlock

/// `key` as an integer; `fallback` where it is not written.
std::int64_t bound(const Value& scope, std::string_view key, std::int64_t fallback) {
  return scope.integer(key, {.fallback = fallback, .min = 1, .max = std::max(fallback, kMaxCount)});
}

const std::vector<std::string> kRules{"always", "grouped_unwindowed"};
const std::vector<std::string> kEntryForms{"any", "operands", "converted"};

KernelScope read_scope(const Value& map) {
  KernelScope scope;
  if (!map.exists()) return scope;
  if (map.at("when").as_choice(kRules, "always") != "always") scope.when = Applies::grouped_unwindowed;
  const std::string form = map.at("entries").as_choice(kEntryForms, "any");
  scope.entries = static_cast<EntryForm>(std::ranges::find(kEntryForms, form) - kEntryForms.begin());
  scope.math_bits = map.integer("math_bits", {.fallback = 0, .min = 0, .max = 16});
  if (scope.math_bits != 0 && scope.math_bits != 8 && scope.math_bits != 16) {
    map.at("math_bits").error("expected 8 or 16, or no such key for both");
  }
  scope.min_group = bound(map, "min_group", scope.min_group);
  scope.max_group = bound(map, "max_group", scope.max_group);
  scope.min_head_dim = bound(map, "min_head_dim", scope.min_head_dim);
  scope.max_head_dim = bound(map, "max_head_dim", scope.max_head_dim);
  scope.max_entries = map.integer("max_entries", {.fallback = scope.max_entries, .min = 1, .max = scope.max_entries});
  scope.min_blocks_per_sm = map.at("min_blocks_per_sm").as_number({.fallback = 0.0, .min = 0, .max = 1e6});
  return scope;
}

void read_tiles(const Value& list, AttentionKernel& kernel) {
  for (const Value& pair : list.items()) {
    const std::int64_t head_dim = pair.integer("head_dim", {.fallback = {}, .min = 1, .max = kMaxCount});
    const std::int64_t entries = pair.integer("entries", {.fallback = {}, .min = 1, .max = kMaxCount});
    if (!kernel.tiles.empty() && head_dim <= kernel.tiles.back().head_dim) {
      pair.error("head_dim must ascend from entry to entry");
    }
    const std::int64_t rows = pair.integer("query_rows", {.fallback = 0, .min = 0, .max = kMaxCount});
    kernel.tiles.push_back({head_dim, entries, rows});
  }
  if (kernel.tiles.empty()) list.error("expected at least one {head_dim, entries, query_rows}");
}

}  // namespace

bool KernelScope::serves(const DecodeAttentionWork& work, std::int64_t num_sms) const {
  if (when == Applies::grouped_unwindowed && (work.query_heads_per_task == 1 || work.has_window)) return false;
  if ((math_bits != 0 && math_bits != work.math_bits) || work.query_heads_per_task < min_group ||
      work.query_heads_per_task > max_group || work.head_dim < min_head_dim || work.head_dim > max_head_dim) {
    return false;
  }
  const bool converts =
      std::ranges::any_of(work.tasks, [](const AttentionTask& task) { return task.dequantized_elements > 0; });
  if (entries != EntryForm::any && converts != (entries == EntryForm::converted)) return false;
  for (const AttentionTask& task : work.tasks) {
    if (task.num_entries + task.hidden_entries > max_entries) return false;
  }
  if (min_blocks_per_sm <= 0) return true;
  double blocks = 0;
  for (const AttentionTask& task : work.tasks) {
    const std::int64_t full = (task.num_entries + task.hidden_entries) / kEntriesOfABlock;
    blocks += static_cast<double>(task.count) * static_cast<double>(std::max<std::int64_t>(1, full));
  }
  return blocks >= min_blocks_per_sm * static_cast<double>(num_sms);
}

std::int64_t AttentionKernel::tile_entries(std::int64_t head_dim) const {
  for (const KernelTile& tile : tiles) {
    if (head_dim <= tile.head_dim) return tile.entries;
  }
  // Beyond the list the scratch memory of one tile stays constant: entries x head_dim does.
  return std::max<std::int64_t>(1, tiles.back().entries * tiles.back().head_dim / head_dim);
}

std::int64_t AttentionKernel::tile_rows(std::int64_t head_dim) const {
  const auto tile = std::ranges::find_if(tiles, [&](const KernelTile& each) { return head_dim <= each.head_dim; });
  const std::int64_t rows = tile == tiles.end() ? tiles.back().query_rows : tile->query_rows;
  return rows == 0 ? tile_query_rows : rows;
}

AttentionKernel AttentionKernel::at_clock(double gpu_clock) const {
  AttentionKernel kernel = *this;
  const double stretch = clock / gpu_clock;
  for (double AttentionKernel::*time :
       {&AttentionKernel::fixed_time, &AttentionKernel::sequence_time, &AttentionKernel::task_time,
        &AttentionKernel::task_time_per_channel, &AttentionKernel::output_time, &AttentionKernel::empty_block_time,
        &AttentionKernel::regroup_time, &AttentionKernel::combine_time, &AttentionKernel::combine_output_time}) {
    kernel.*time *= stretch;
  }
  kernel.transpose_rate /= stretch;
  kernel.clock = gpu_clock;
  return kernel;
}

AttentionKernel read_attention_kernel(const Value& map, std::vector<ProfileFact>& fact_list) {
  AttentionKernel kernel;
  kernel.name = map.string("name");
  kernel.framework = map.string("framework");
  kernel.scope = read_scope(map.at("serves"));
  FactReader facts(map, fact_list);
  kernel.shares_kv = facts.choice("shares_kv", {"always", "never"}) == "always";
  if (map.at("joins_prompts").exists())
    kernel.joins_prompts = facts.choice("joins_prompts", {"always", "never"}) == "always";
  kernel.splits = split_rule_of(facts.choice("splits", split_rule_names()));
  kernel.max_splits = facts.integer("max_splits", 1, kMaxCount);
  kernel.blocks_per_sm = facts.integer("blocks_per_sm", 1, 64);
  kernel.clock = facts.quantity("clock", positive_quantity(Dimension::frequency, 1e12));
  kernel.fixed_time = facts.quantity("fixed_time", seconds());
  kernel.sequence_time = facts.quantity("sequence_time", seconds());
  kernel.task_time = facts.quantity("task_time", seconds());
  kernel.task_time_per_channel = facts.quantity("task_time_per_channel", seconds());
  kernel.output_time = facts.quantity("output_time", seconds());
  kernel.empty_block_time = facts.quantity("empty_block_time", seconds());
  kernel.regroup_time = facts.quantity("regroup_time", seconds());
  kernel.combine_time = facts.quantity("combine_time", seconds());
  kernel.combine_output_time = facts.quantity("combine_output_time", seconds());
  kernel.bytes_in_flight =
      static_cast<Bytes>(facts.quantity("bytes_in_flight", positive_quantity(Dimension::size, 1e9)));
  kernel.tile_query_rows = facts.integer("tile_query_rows", 1, kMaxCount);
  kernel.tensor_efficiency = facts.number("tensor_efficiency", 0.001, 1);
  kernel.transpose_rate =
      facts.quantity("transpose_rate", {.dimension = Dimension::rate, .fallback = {}, .min = 1, .max = 1e18});
  if (map.at("memory_share").exists()) kernel.memory_share = facts.number("memory_share", 0.01, 1);
  read_tiles(map.at("tiles"), kernel);
  return kernel;
}

AttentionKernel load_attention_kernel(const std::string& name_or_path, std::vector<ProfileFact>& fact_list) {
  config::Document document =
      config::Document::load(find_data_file("hw_profiles/attention_kernels", name_or_path, {".yaml"}));
  std::vector<ProfileFact> own;
  AttentionKernel kernel = read_attention_kernel(document.root(), own);
  document.root().finish();
  document.throw_if_errors();
  for (ProfileFact& fact : own) {
    fact_list.push_back({kernel.name + "." + fact.key, std::move(fact.value), std::move(fact.source)});
  }
  return kernel;
}

}  // namespace kvtide::gpu

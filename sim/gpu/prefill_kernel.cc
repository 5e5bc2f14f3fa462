#include "gpu/prefill_kernel.h"

#include <algorithm>

#include "gpu/fact_reader.h"

namespace kvtide::gpu {
namespace {

constexpr std::int64_t kMaxCount = 65536;

std::int64_t bits_of(const config::Value& scope, std::string_view key) {
  const std::int64_t bits = scope.integer(key, {.fallback = 0, .min = 0, .max = 16});
  if (bits != 0 && bits != 4 && bits != 8 && bits != 16) scope.at(key).error("expected 4, 8 or 16, or no such key");
  return bits;
}

}  // namespace

std::pair<std::int64_t, std::int64_t> PrefillKernel::tile_of(std::int64_t head_dim) const {
  for (const auto& tile : tiles) {
    if (head_dim <= tile.first) return tile;
  }
  const auto& [largest, keys] = tiles.back();
  return {head_dim, std::max<std::int64_t>(1, keys * largest / head_dim)};
}

bool PrefillKernel::serves(const PrefillAttentionWork& work) const {
  return (query_bits == 0 || query_bits == work.query_bits) && (kv_bits == 0 || kv_bits == work.kv_bits) &&
         work.head_dim >= min_head_dim && work.head_dim <= max_head_dim;
}

PrefillKernel read_prefill_kernel(const config::Value& map, std::vector<ProfileFact>& fact_list) {
  PrefillKernel kernel;
  kernel.name = map.string("name");
  kernel.framework = map.string("framework");
  const config::Value scope = map.at("serves");
  if (scope.exists()) {
    kernel.query_bits = bits_of(scope, "query_bits");
    kernel.kv_bits = bits_of(scope, "kv_bits");
    kernel.min_head_dim = scope.integer("min_head_dim", {.fallback = 1, .min = 1, .max = kMaxCount});
    kernel.max_head_dim =
        scope.integer("max_head_dim", {.fallback = kernel.max_head_dim, .min = 1, .max = kernel.max_head_dim});
  }
  kernel.packs_group = map.boolean("packs_group");
  kernel.rotates = map.boolean("rotates");
  FactReader facts(map, fact_list);
  kernel.operand_bits = facts.integer("operand_bits", 8, 16);
  if (kernel.operand_bits != 8 && kernel.operand_bits != 16) map.at("operand_bits").error("expected 8 or 16");
  kernel.tile_queries = facts.integer("tile_queries", 1, kMaxCount);
  kernel.fixed_time = facts.quantity("fixed_time", seconds());
  kernel.task_time = facts.quantity("task_time", seconds());
  if (map.at("empty_block_time").exists()) {
    kernel.empty_block_time = facts.quantity("empty_block_time", seconds());
  }
  kernel.append_time = facts.quantity("append_time", seconds());
  if (map.at("query_time").exists()) kernel.query_time = facts.quantity("query_time", seconds());
  kernel.tensor_efficiency = facts.number("tensor_efficiency", 0.001, 1);
  kernel.scores_per_clock = facts.number("scores_per_clock", 0.001, 1e6);
  const config::Value tiles = map.at("tiles");
  for (const config::Value& tile : tiles.items()) {
    const std::int64_t head_dim = tile.integer("head_dim", {.fallback = {}, .min = 1, .max = kMaxCount});
    if (!kernel.tiles.empty() && head_dim <= kernel.tiles.back().first) tile.error("head_dim must ascend");
    kernel.tiles.emplace_back(head_dim, tile.integer("keys", {.fallback = {}, .min = 1, .max = kMaxCount}));
  }
  if (kernel.tiles.empty()) {
    tiles.error("expected at least one {head_dim, keys}");
    kernel.tiles.emplace_back(128, 64);
  }
  return kernel;
}

}  // namespace kvtide::gpu

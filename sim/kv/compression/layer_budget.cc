#include "kv/compression/layer_budget.h"

#include <algorithm>

#include "kv/partition.h"

namespace kvtide::kv {
namespace {

/// Ratio that keeps `count` of `num`, at least a millionth; contexts of a million positions and more are rounded.
PartsPerMillion ratio_of(std::int64_t num, std::int64_t count) {
  if (count >= num || num <= 0) return 1'000'000;
  if (num < 1'000'000) return std::max<PartsPerMillion>(1, keep_for_count(num, count));
  return std::max<PartsPerMillion>(1, static_cast<PartsPerMillion>(static_cast<__int128>(count) * 1'000'000 / num));
}

}  // namespace

PartsPerMillion layer_keep(const LayerBudget& budget, PartsPerMillion keep, std::int64_t layer, std::int64_t num_layers,
                           std::int64_t num_positions, bool is_lazy) {
  switch (budget.kind) {
    case LayerBudget::Kind::uniform:
      return keep;
    case LayerBudget::Kind::pyramid:
      return ratio_of(num_positions, pyramid_count(budget.pyramid, num_positions, keep, layer, num_layers));
    case LayerBudget::Kind::table:
      return budget
          .table[static_cast<std::size_t>(layer * static_cast<std::int64_t>(budget.table.size()) / num_layers)];
    case LayerBudget::Kind::lazy:
      return is_lazy ? ratio_of(num_positions, budget.lazy_kept) : 1'000'000;
  }
  return keep;
}

Compression with_keep(Compression setting, PartsPerMillion keep) {
  for (Stage& stage : setting.stages) {
    if (auto* evict = std::get_if<Evict>(&stage)) evict->keep = keep;
  }
  return setting;
}

}  // namespace kvtide::kv

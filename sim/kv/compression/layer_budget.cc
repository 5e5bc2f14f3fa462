#include "kv/compression/layer_budget.h"

#include "kv/partition.h"

namespace kvtide::kv {
PartsPerMillion layer_keep(const LayerBudget& budget, PartsPerMillion keep, std::int64_t layer, std::int64_t num_layers,
                           std::int64_t num_positions, bool is_lazy) {
  switch (budget.kind) {
    case LayerBudget::Kind::uniform:
    case LayerBudget::Kind::heads:
      return keep;
    case LayerBudget::Kind::pyramid:
      return keep_ratio_of(num_positions, pyramid_count(budget.pyramid, num_positions, keep, layer, num_layers));
    case LayerBudget::Kind::table:
      return budget
          .table[static_cast<std::size_t>(layer * static_cast<std::int64_t>(budget.table.size()) / num_layers)];
    case LayerBudget::Kind::lazy:
      return is_lazy ? keep_ratio_of(num_positions, budget.lazy_kept) : 1'000'000;
  }
  return keep;
}

std::vector<PartsPerMillion> keep_by_head(const LayerBudget& budget, PartsPerMillion keep, std::int64_t layer,
                                          std::int64_t num_layers, std::int64_t num_heads, std::int64_t num_positions) {
  if (budget.kind != LayerBudget::Kind::heads) return {};
  return head_keeps(budget.heads, budget.head_rule, keep, layer, num_layers, num_heads, num_positions);
}

Compression with_keep(Compression setting, PartsPerMillion keep, const std::vector<PartsPerMillion>& by_head) {
  for (Stage& stage : setting.stages) {
    auto* evict = std::get_if<Evict>(&stage);
    if (evict == nullptr) continue;
    evict->keep = keep;
    evict->head_keep = by_head;
  }
  return setting;
}

}  // namespace kvtide::kv

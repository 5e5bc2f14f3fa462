#include "kv/compression/pool.h"

#include <algorithm>

namespace kvtide::kv {

void apply(const Pool& stage, WorkingLayer& layer) {
  if (stage.width == 1) return;
  for (WorkingHead& head : layer.heads) {
    for (WorkingBlock& block : head.blocks) {
      if (!block.is_free()) continue;
      std::vector<std::int32_t> pooled;
      for (std::size_t index = 0; index < block.entry_size.size(); ++index) {
        if (index % static_cast<std::size_t>(stage.width) == 0) pooled.push_back(0);
        pooled.back() += block.entry_size[index];
      }
      block.entry_size = std::move(pooled);
      block.pooled_rope = stage.rope;
      block.pool_weight = stage.weight;
      block.is_mass_corrected = stage.mass_correct;
    }
  }
}

}  // namespace kvtide::kv

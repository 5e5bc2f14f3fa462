#include "kv/cache_schedule.h"

#include <algorithm>

#include "kv/compression/layer_budget.h"
#include "kv/partition.h"

namespace kvtide::kv {

Compression at_target(const Compression& setting, const CacheSchedule& schedule, std::int64_t num_positions) {
  if (schedule.decode_target == 0) return setting;
  std::int64_t total = num_positions;
  std::int64_t wanted = schedule.decode_target;
  const bool is_by_block = std::ranges::any_of(setting.stages, [](const Stage& stage) {
    const auto* evict = std::get_if<Evict>(&stage);
    return evict != nullptr && evict->granularity == Granularity::block;
  });
  if (is_by_block) {
    total = static_cast<std::int64_t>(partition_blocks(setting, num_positions).size());
    wanted = std::max<std::int64_t>(1, wanted / setting.block_size);
  }
  constexpr PartsPerMillion kAll = 1'000'000;
  if (wanted >= total) return with_keep(setting, kAll);
  const PartsPerMillion dropped = ((total - wanted) * kAll + total - 1) / total;
  return with_keep(setting, std::max<PartsPerMillion>(1, kAll - dropped));
}

}  // namespace kvtide::kv

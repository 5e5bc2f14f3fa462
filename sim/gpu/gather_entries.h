#pragma once
// Kept entries copied together, so that evicted pages become free (compaction), or scattered pages read through a table.
//
// Example: 2048 kept entries, head_dim 128, 16 bit, K and V: 2048 x 512 B read and written. Entries kept one by one are runs
// of 256 B; blocks of 16 kept whole are runs of 4096 B.

#include <cstdint>

#include "gpu/kernel_work.h"

namespace kvtide::gpu {

struct GatherShape {
  std::int64_t num_entries = 0;  ///< kept, over all sequences and KV heads
  std::int64_t head_dim = 128;
  std::int64_t bits = 16;        ///< of a stored element
  std::int64_t run_entries = 1;  ///< neighbours that are kept together
};

/// @throws InputError  counts out of range
[[nodiscard]] StreamWork gather_work(const GatherShape& shape);

}  // namespace kvtide::gpu

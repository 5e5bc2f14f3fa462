#pragma once
// Mean or weighted mean of every `width` neighbouring K and V entries of a head, read from pages and written to others.
//
// Example: 128 entries, width 4, head_dim 128, 16 bit, one head: 128 x 128 x 2 x 2 B = 65,536 B read, 16,384 B written,
// 2 FLOP (weight, add) for each of 32,768 elements.

#include <cstdint>

#include "gpu/kernel_work.h"

namespace kvtide::gpu {

struct PoolShape {
  std::int64_t num_entries = 0;  ///< of all sequences and KV heads
  std::int64_t width = 4;
  std::int64_t head_dim = 128;
  std::int64_t block_entries = 128;  ///< of one thread block: the block that became eligible
  Bytes chunk_bytes = 4096;
};

/// @throws InputError  counts out of range
[[nodiscard]] StreamWork pool_work(const PoolShape& shape);

}  // namespace kvtide::gpu

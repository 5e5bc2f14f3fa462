#pragma once
// Scores of cached entries: either attention of a window of recent queries (SnapKV, TOVA, attention sums: a product on the
// tensor cores, then a softmax), or a norm of the keys (CUDA cores only).
//
// Example: 4096 entries, 8 KV heads, head_dim 128, 64 queries x 4 heads of a group: keys 8,388,608 B, queries 524,288 B;
// 2 x 256 x 128 x 4096 x 8 = 2.15 GFLOP of products; 8,388,608 attention weights at 8 FLOP (scale, max, exponential, sum,
// divide, add over the group); one fp32 score an entry and KV head is written: 131,072 B.

#include <cstdint>

#include "gpu/kernel_work.h"

namespace kvtide::gpu {

struct ScoreShape {
  std::int64_t num_entries = 0;  ///< of one sequence and KV head
  std::int64_t kv_heads = 1;     ///< over all sequences
  std::int64_t head_dim = 128;
  std::int64_t num_queries = 0;  ///< rows that score an entry: window x group; 0: the norm of the key
  std::int64_t key_bits = 16;
  Bytes chunk_bytes = 4096;
};

/// @throws InputError  counts out of range
[[nodiscard]] StreamWork score_work(const ScoreShape& shape);

}  // namespace kvtide::gpu

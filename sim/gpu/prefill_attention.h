#pragma once
// Causal attention of new tokens over themselves and what the cache already holds, one layer.
//
// First the new K and V go to the cache. Then a thread block takes one tile of query rows of one head and streams the
// keys they may see, tile by tile; masked parts of a tile are computed and thrown away. Blocks run over the SMs, longest
// first; device memory and L2 bound the whole.
//   block    = task_time + key tiles x tile_queries x tile_keys x (2 (head_dim + value_dim) / tensor rate
//                                                                 + 1 / (scores_per_clock x clock))
//   duration = launch + fixed + max(waves, bytes of Q, K, V, O) + max(append, bytes of the append) + q cast or copied
//
// Example, H100 (989.4 TFLOP/s over 132 SMs, 1.83 GHz), efficiency 0.76, 30 scores a clock, tiles of 128 x 128,
// head_dim 128: one score costs 512 / (0.76 x 7.495 T) = 89.9 ps + 18.2 ps, a tile of 16,384 scores 1.77 us. 4096 tokens,
// 32 heads: 32 query tiles with 1 .. 32 key tiles each, 528 x 32 = 16,896 tiles over 132 SMs = 128 each: 227 us.

#include "gpu/access_pattern.h"
#include "gpu/gpu_profile.h"
#include "gpu/kernel_work.h"
#include "gpu/l2_cache.h"

namespace kvtide::gpu {

/// Key tiles that the query rows [first, last] touch: those with keys from max(0, first - window + 1) to last.
/// @param window  0: none
[[nodiscard]] std::int64_t touched_tiles(std::int64_t first_position, std::int64_t last_position, std::int64_t window,
                                         std::int64_t tile_keys);

/// @param l2  warm: a benchmark replays the same tensors; cold: only what a previous kernel just wrote (q, k, v of the
///            new tokens) is in L2, the cached part of the context comes from device memory
/// @throws InputError  counts out of range, heads that are no multiple of the KV heads
[[nodiscard]] KernelTime time_prefill_attention(const GpuProfile& profile, MemoryModel& memory,
                                                const PrefillAttentionWork& work, L2State l2);

}  // namespace kvtide::gpu

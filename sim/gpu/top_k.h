#pragma once
// Selection of the best entries by radix select: four passes over 32-bit scores, eight bits each, then the indices of the
// kept are written. One thread block a list, one kernel a pass (RAFT's select_radix, which Quest uses; torch.topk for long lists):
// Quest reports 5 to 10 us below 128k tokens, 8,192 scores a list (arXiv 2406.10774).
//
// Example: 8 lists of 32,768 scores, 16,384 kept: 4 x 1,048,576 B read from L2, 8 x 16,384 x 4 B = 524,288 B written.

#include <cstdint>

#include "gpu/kernel_work.h"

namespace kvtide::gpu {

struct TopKShape {
  std::int64_t num_lists = 1;  ///< sequences x KV heads, or sequences where heads choose together
  std::int64_t list_size = 0;
  std::int64_t num_kept = 0;  ///< of each list, 0..list_size
};

/// @throws InputError  counts out of range
[[nodiscard]] StreamWork top_k_work(const TopKShape& shape);

}  // namespace kvtide::gpu

#pragma once
// Thread blocks handed to SMs: each block goes to the SM that is free first, so that time moves in waves.
//
// Example: 132 SMs, 200 blocks of 3 us -> 132 run at once, 68 in a second wave: 6 us, as long as 264 blocks would take.

#include <cstdint>
#include <vector>

namespace kvtide::gpu {

struct BlockGroup {
  std::int64_t count = 0;  ///< equal thread blocks, >= 0
  double duration = 0;     ///< seconds of each, >= 0
};

/// Time until the last block ends. Longest blocks start first, whatever the order of `groups`.
///
/// Approximation: blocks do not slow each other down; what they share (bandwidth) is bounded by the caller.
/// Cost: independent of `count` and of the ratio of durations.
/// @param num_slots  SMs times resident blocks, > 0
[[nodiscard]] double dispatch_in_waves(std::vector<BlockGroup> groups, std::int64_t num_slots);

}  // namespace kvtide::gpu

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

/// Slots that find no further block at the same moment.
struct SlotsDone {
  double at = 0;  ///< seconds; 0: they never had one
  std::int64_t num_slots = 0;
};

/// When the slots run out of blocks, ascending. Longest blocks start first, whatever the order of `groups`.
///
/// Approximation: blocks do not slow each other down; time_on_shared_memory adds that.
/// Cost: independent of `count` and of the ratio of durations.
/// Example: 132 slots, 200 blocks of 3 us -> 64 slots done at 3 us, 68 at 6 us.
/// @param num_slots  SMs times resident blocks, > 0
[[nodiscard]] std::vector<SlotsDone> dispatch_blocks(std::vector<BlockGroup> groups, std::int64_t num_slots);

/// Time until the last block ends: the last of dispatch_blocks; 0 without blocks.
[[nodiscard]] double dispatch_in_waves(std::vector<BlockGroup> groups, std::int64_t num_slots);

/// The same when the blocks draw on one memory that needs `memory_time` for all they move: while n slots are busy, what they
/// ask for is the share n / (sum of busy slot times) of it each second, and all slow down alike where that is more than the
/// memory gives. So full waves run at the memory's pace and a last, half-empty wave at the blocks' own.
/// Near saturation both slow each other down: by (1 + asked^p)^(1/p).
/// Example, p infinite: 4 slots, 5 blocks of 3 s, 15 s of slots in all, memory 5 s. Four busy slots ask for 4/15 x 5 = 1.33 of
/// the memory, so the first wave takes 4 s; one asks for 0.33, its wave takes 3 s: 7 s, where max(6, 5) says 6.
/// @param memory_time  seconds, >= 0
/// @param sharpness    p > 0
[[nodiscard]] double time_on_shared_memory(const std::vector<SlotsDone>& done, double memory_time, double sharpness);

}  // namespace kvtide::gpu

#pragma once
// Split-KV: into how many parts a decode kernel cuts one task along its entries, so that few long tasks fill the machine.
// Every framework has a rule of its own; the staircase of measured times is that rule.
//
// Example, 132 SMs, 64 tasks of 4096 entries, tiles of 128 (32 tiles a task):
//   fill_waves     264 slots: 4 splits fill 256 of them (0.97), fewer fill at most 0.73: 4
//   balance_tiles  64 x 32 x 1.1 / 132 = 17.07, so 18 tiles a block: 2
//   by_history     4096 / 128 = 32, at most sqrt(8 x 32) = 16; 64 x 16 / 132 = 7.8 waves, no more than 8: 16
//   cover_sms      ceil(132 / 64) = 3
//   within_slots   floor(132 / 64) = 2

#include <cstdint>
#include <string>
#include <vector>

namespace kvtide::gpu {

enum class SplitRule : std::uint8_t {
  none,        ///< one block a task
  fill_waves,  ///< FlashAttention-2, num_splits_heuristic over 2 slots an SM: the smallest number that fills the last
               ///< wave to 85 % of the best filling; 1 when the tasks alone occupy 80 % of the slots
  balance_tiles,  ///< FlashAttention-3, hopper/flash_prepare_scheduler.cu: blocks of ceil(1.1 x tiles / SMs) tiles
  by_history,  ///< TensorRT-LLM XQA, computeMultiBlockCount: 128 entries a block, at most sqrt(8 x that) blocks, and no
               ///< more than 8 waves; counts the whole history, whatever the window
  cover_sms,   ///< TensorRT-LLM masked multi-head attention, multi_block_grid_setup: every SM gets a block
  within_slots,  ///< trtllm-gen and FlashInfer: as many as still run in one wave
  fixed,  ///< the kernel's largest number, whatever the work (Triton; FlashAttention under a CUDA graph): the parts without
          ///< entries cost time too
};

[[nodiscard]] const std::vector<std::string>& split_rule_names();
/// @param name  one of split_rule_names()
[[nodiscard]] SplitRule split_rule_of(const std::string& name);

/// What the rules look at.
struct SplitWork {
  std::int64_t num_blocks = 1;     ///< before splitting, >= 1
  std::int64_t num_tiles = 1;      ///< of the longest task, >= 1
  double total_tiles = 1;          ///< over all blocks
  std::int64_t num_history = 0;    ///< entries of the longest task, those before its window too
  std::int64_t num_sms = 1;        ///< >= 1
  std::int64_t blocks_per_sm = 1;  ///< resident, >= 1
  std::int64_t max_splits = 128;   ///< >= 1
};

/// @return parts that the longest task is cut into, 1..max_splits and at most its tiles; by_history and fixed may exceed them, the
///         blocks beyond find nothing to do
[[nodiscard]] std::int64_t split_count(SplitRule rule, const SplitWork& work);

}  // namespace kvtide::gpu

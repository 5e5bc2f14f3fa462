#pragma once
// How positions map to blocks: a grid of block_size positions, shifted by grid_offset.
//
// Example: 300 positions, block_size 128, grid_offset 2: blocks 0..125, 126..253, 254..299. With sinks 4 and window 64
// (positions 236..299) all three are protected: the first holds a sink, the other two touch the window.

#include <cstdint>
#include <vector>

namespace kvtide::kv {

struct Compression;

struct Block {
  std::int64_t begin = 0;     ///< first position
  std::int64_t end = 0;       ///< one past the last
  bool is_protected = false;  ///< holds a protected position, or is the newest and not full: kept as it is
};

/// Blocks that hold at least one of the positions 0..num_positions-1, ascending. Empty for no positions.
[[nodiscard]] std::vector<Block> partition_blocks(const Compression& setting, std::int64_t num_positions);

/// num - floor(num * (1 - keep)), computed exactly: 10 % of 10 is 1, 50 % of 9 is 5.
/// @param keep_ppm  kept / original in millionths, 0..1e6; anything above 0 keeps at least one of num >= 1
[[nodiscard]] std::int64_t kept_count(std::int64_t num, std::int64_t keep_ppm);

/// The largest keep ratio of which kept_count() makes `kept` of `num`. Example: 51 of 103 -> 495145 (floor(103 *
/// 0.504855) = 52 go). @param num 1..999999, @param kept 1..num
[[nodiscard]] std::int64_t keep_for_count(std::int64_t num, std::int64_t kept);

}  // namespace kvtide::kv

#pragma once
// How positions map to blocks.
//
// fixed          a grid of block_size positions, shifted by grid_offset
// random_offset  the same grid, its offset drawn for each request, or derived from the text so that equal prompts still
//                share their cached blocks
// overlap        windows of block_size positions every (1 - fraction) block_size: each covers a part of its neighbour
// prefix_pad     the text in front is filled up to a multiple, so that the rest keeps its place in the grid
// content        a block ends at the last boundary of the text (a paragraph's first token) within its size
//
// Example: 300 positions, block_size 128, grid_offset 2: blocks 0..125, 126..253, 254..299. With sinks 4 and window 64
// (positions 236..299) all three are protected: the first holds a sink, the other two touch the window. With overlap
// 0.25 windows begin every 96 positions: 0..127, 96..223, 192..299, 288..299.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kv/position_pattern.h"

namespace kvtide::kv {

struct Compression;

enum class PartitionKind : std::uint8_t { fixed, random_offset, overlap, prefix_pad, content };
[[nodiscard]] std::string_view to_string(PartitionKind kind);

/// What overlapping costs. With halo h = fraction * block_size and windows kept at rate f:
/// duplicate       every kept window stores all it covers: 1 / (1 - fraction) times the bytes
/// union_once      a position is stored once when any kept window covers it: d f (1 - f) of the uncompressed cache more,
///                 d = fraction / (1 - fraction) the share of positions that two windows cover
/// quantized_halo  a window stores its own stride as it is and the neighbour's part in 4 bits
/// score_only      blocks do not overlap; a block's score also counts half a halo on either side
enum class OverlapStorage : std::uint8_t { duplicate, union_once, quantized_halo, score_only };
[[nodiscard]] std::string_view to_string(OverlapStorage storage);  ///< union_once is "union"

struct Partition {
  PartitionKind kind = PartitionKind::fixed;
  std::int64_t overlap_ppm = 250'000;  ///< overlap: halo / block_size in millionths, in (0, 500000]
  OverlapStorage storage = OverlapStorage::duplicate;
  bool is_from_content = false;    ///< random_offset: derived from the text in front, not drawn for the request
  std::uint64_t content_key = 0;   ///< of that text
  std::int64_t pad_multiple = 0;   ///< prefix_pad: the text in front becomes a multiple of it; 0: block_size
  std::int64_t prefix_tokens = 0;  ///< prefix_pad: length of the text in front before padding
  PositionPattern boundaries;      ///< content: where a block may end
  bool operator==(const Partition&) const = default;
};

struct Block {
  std::int64_t begin = 0;     ///< first position
  std::int64_t end = 0;       ///< one past the last
  bool is_protected = false;  ///< holds a protected position, or is the newest and not full: kept as it is
  std::int64_t core_end = 0;  ///< overlap: where the next window begins, else end
};

/// Blocks that hold at least one of the positions 0..num_positions-1, ascending; disjoint unless windows overlap. Empty
/// for no positions.
[[nodiscard]] std::vector<Block> partition_blocks(const Compression& setting, std::int64_t num_positions);

/// All that decides where blocks begin and end (not which are protected), as text: equal texts, equal blocks.
/// Example: blocks of 64 shifted by 2: "64 2 64"; the same where a text's boundaries end them: "64 2 64 of 2048: 10 70".
[[nodiscard]] std::string grid_key(const Compression& setting);

/// Positions between the begins of neighbouring blocks: block_size, or less where windows overlap.
[[nodiscard]] std::int64_t block_stride(const Compression& setting);

/// True when one position can belong to two blocks.
[[nodiscard]] bool has_overlapping_blocks(const Compression& setting);

/// Tokens that prefix_pad adds behind `prefix` tokens; 0 for other kinds. Example: 130 in multiples of 128: 126.
[[nodiscard]] std::int64_t padding_after(const Compression& setting, std::int64_t prefix);

/// Mean of padding_after() over all prefix lengths, rounded up: (multiple - 1) / 2. Example: 128 -> 63.5 -> 64.
[[nodiscard]] std::int64_t mean_padding(const Compression& setting);

/// The setting as the text sees it when `shift` more tokens stand in front of it. Example: grid_offset 2, block_size 64,
/// shift 63: grid_offset 1; padded: unchanged.
/// Approximation: windows that overlap begin with the first whose own stride reaches the text. Behind a stride or more
/// of other text the window before it covers the first halo - grid_offset positions, too, and is left out: blocks of 128, a
/// halo of 32, 96 tokens in front: the window of those also reads positions 0..31.
[[nodiscard]] Compression behind_prefix(const Compression& setting, std::int64_t shift);

/// behind_prefix() depends on the shift modulo this only; 0: on all of it. For windows that overlap within its approximation.
[[nodiscard]] std::int64_t prefix_period(const Compression& setting);

/// num - floor(num * (1 - keep)), computed exactly: 10 % of 10 is 1, 50 % of 9 is 5.
/// @param keep_ppm  kept / original in millionths, 0..1e6; anything above 0 keeps at least one of num >= 1
[[nodiscard]] std::int64_t kept_count(std::int64_t num, std::int64_t keep_ppm);

/// The largest keep ratio of which kept_count() makes `kept` of `num`. Example: 51 of 103 -> 495145 (floor(103 *
/// 0.504855) = 52 go). @param num 1..999999, @param kept 1..num
[[nodiscard]] std::int64_t keep_for_count(std::int64_t num, std::int64_t kept);
/// The same for any numbers: at least a millionth, at most all; of a million positions and more it is rounded down.
[[nodiscard]] std::int64_t keep_ratio_of(std::int64_t num, std::int64_t kept);

}  // namespace kvtide::kv

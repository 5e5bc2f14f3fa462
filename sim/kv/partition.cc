#include "kv/partition.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "kv/compression/compression.h"

namespace kvtide::kv {
namespace {

constexpr std::int64_t kMillion = 1'000'000;

/// Blocks shorter than this share of block_size are not worth a boundary of their own.
constexpr std::int64_t kShortestContentBlock = 4;

std::int64_t halo(const Compression& setting) {
  return static_cast<std::int64_t>(static_cast<__int128>(setting.block_size) * setting.partition.overlap_ppm /
                                   kMillion);
}

/// One past the last position of the block of content that begins at `begin`, whatever the number of positions.
std::int64_t content_end(const Compression& setting, std::int64_t begin) {
  const std::int64_t longest = begin + setting.block_size;
  const std::int64_t shortest = std::max<std::int64_t>(1, setting.block_size / kShortestContentBlock);
  return setting.partition.boundaries.last_within(begin + shortest, longest, longest);
}

}  // namespace

std::string_view to_string(PartitionKind kind) {
  switch (kind) {
    case PartitionKind::fixed:
      return "fixed";
    case PartitionKind::random_offset:
      return "random_offset";
    case PartitionKind::overlap:
      return "overlap";
    case PartitionKind::prefix_pad:
      return "prefix_pad";
    case PartitionKind::content:
      return "content";
  }
  return {};
}

std::string_view to_string(OverlapStorage storage) {
  switch (storage) {
    case OverlapStorage::duplicate:
      return "duplicate";
    case OverlapStorage::union_once:
      return "union";
    case OverlapStorage::quantized_halo:
      return "quantized_halo";
    case OverlapStorage::score_only:
      return "score_only";
  }
  return {};
}

bool has_overlapping_blocks(const Compression& setting) {
  return setting.partition.kind == PartitionKind::overlap && setting.partition.storage != OverlapStorage::score_only;
}

std::int64_t block_stride(const Compression& setting) {
  return has_overlapping_blocks(setting) ? std::max<std::int64_t>(1, setting.block_size - halo(setting))
                                         : setting.block_size;
}

std::vector<Block> partition_blocks(const Compression& setting, std::int64_t num_positions) {
  KVTIDE_ASSERT(setting.block_size >= 1, "block_size is checked before");
  std::vector<Block> blocks;
  const std::int64_t window_begin = num_positions - std::min(setting.window, num_positions);
  const std::int64_t stride = block_stride(setting);
  const bool has_content_ends = setting.partition.kind == PartitionKind::content;
  const bool has_anchors = setting.anchor_scope == AnchorScope::block && !setting.anchors.empty();
  blocks.reserve(static_cast<std::size_t>(std::min(num_positions, num_positions / stride + 2)));
  std::int64_t grid_begin = -setting.grid_offset;
  while (grid_begin < num_positions) {
    const std::int64_t grid_end = has_content_ends ? content_end(setting, grid_begin) : grid_begin + setting.block_size;
    const std::int64_t next = has_content_ends ? grid_end : grid_begin + stride;
    if (next > 0) {
      Block block{std::max<std::int64_t>(grid_begin, 0), std::min(grid_end, num_positions), false,
                  std::min(next, num_positions)};
      // A boundary of the text may yet come until the block has its full size.
      const bool is_filling = (has_content_ends ? grid_begin + setting.block_size : grid_end) > num_positions;
      const bool holds_anchor = has_anchors && setting.anchors.count_within(block.begin, block.end) > 0;
      block.is_protected = block.begin < setting.sinks || block.end > window_begin ||
                           (is_filling && setting.protects_filling_block) || holds_anchor;
      blocks.push_back(block);
    }
    grid_begin = next;
  }
  return blocks;
}

std::string grid_key(const Compression& setting) {
  std::string key = fmt::format("{} {} {}", setting.block_size, setting.grid_offset, block_stride(setting));
  if (setting.partition.kind == PartitionKind::content) {
    const PositionPattern& ends = setting.partition.boundaries;
    key += fmt::format(" of {}: {}", ends.length, fmt::join(ends.positions, " "));
  }
  return key;
}

std::int64_t padding_after(const Compression& setting, std::int64_t prefix) {
  if (setting.partition.kind != PartitionKind::prefix_pad) return 0;
  const std::int64_t multiple =
      setting.partition.pad_multiple > 0 ? setting.partition.pad_multiple : setting.block_size;
  return (multiple - prefix % multiple) % multiple;
}

std::int64_t mean_padding(const Compression& setting) {
  if (setting.partition.kind != PartitionKind::prefix_pad) return 0;
  const std::int64_t multiple =
      setting.partition.pad_multiple > 0 ? setting.partition.pad_multiple : setting.block_size;
  return multiple / 2;  // (multiple - 1) / 2, rounded up
}

Compression behind_prefix(const Compression& setting, std::int64_t shift) {
  Compression moved = setting;
  const std::int64_t before = setting.grid_offset;
  switch (setting.partition.kind) {
    case PartitionKind::fixed:
    case PartitionKind::overlap:
    case PartitionKind::content:
      moved.grid_offset = (before + shift) % block_stride(setting);
      break;
    case PartitionKind::random_offset:
      moved.grid_offset = setting.partition.is_from_content
                              ? static_cast<std::int64_t>(
                                    mix64(setting.partition.content_key ^ mix64(static_cast<std::uint64_t>(shift))) %
                                    static_cast<std::uint64_t>(setting.block_size))
                              : (before + shift) % setting.block_size;
      break;
    case PartitionKind::prefix_pad:
      moved.grid_offset =
          (shift + padding_after(setting, setting.partition.prefix_tokens + shift)) % setting.block_size;
      break;
  }
  return moved;
}

std::int64_t prefix_period(const Compression& setting) {
  switch (setting.partition.kind) {
    case PartitionKind::fixed:
    case PartitionKind::overlap:
    case PartitionKind::content:
      return block_stride(setting);
    case PartitionKind::random_offset:
      return setting.partition.is_from_content ? 0 : setting.block_size;
    case PartitionKind::prefix_pad:
      return setting.partition.pad_multiple % setting.block_size == 0 ? 1 : 0;
  }
  return 0;
}

std::int64_t kept_count(std::int64_t num, std::int64_t keep_ppm) {
  const auto removed = static_cast<std::int64_t>(static_cast<__int128>(num) * (kMillion - keep_ppm) / kMillion);
  return num - removed;
}

std::int64_t keep_for_count(std::int64_t num, std::int64_t kept) {
  KVTIDE_ASSERT(num >= 1 && num < 1'000'000 && kept >= 0 && kept <= num, "a part of fewer than a million");
  return 1'000'000 - ((num - kept) * 1'000'000 + num - 1) / num;
}

std::int64_t keep_ratio_of(std::int64_t num, std::int64_t kept) {
  constexpr std::int64_t kAll = 1'000'000;
  if (kept >= num || num <= 0) return kAll;
  if (kept < 1) return 1;
  const auto rounded = static_cast<std::int64_t>(static_cast<__int128>(kept) * kAll / num);
  return std::max<std::int64_t>(1, num < kAll ? keep_for_count(num, kept) : rounded);
}

}  // namespace kvtide::kv

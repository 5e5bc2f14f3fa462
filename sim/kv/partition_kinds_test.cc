// Partitions other than the plain grid, and what stands in front of the text.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kv/compression/compression.h"
#include "kv/partition.h"

namespace kvtide::kv {
namespace {

using ::testing::ElementsAre;

Compression bare(std::int64_t block_size, PartitionKind kind) {
  Compression setting;
  setting.block_size = block_size;
  setting.partition.kind = kind;
  setting.sinks = 0;
  setting.window = 0;
  return setting;
}

std::vector<std::int64_t> begins(const Compression& setting, std::int64_t num_positions) {
  std::vector<std::int64_t> result;
  for (const Block& block : partition_blocks(setting, num_positions)) result.push_back(block.begin);
  return result;
}

/// Share of spans of `size` positions, one at each of 12 strides' places, that no window holds whole.
double split_share(const Compression& setting, std::int64_t size) {
  const std::int64_t num_places = 12 * block_stride(setting);
  const std::vector<Block> blocks = partition_blocks(setting, num_places + size);
  std::int64_t num_split = 0;
  for (std::int64_t first = 0; first < num_places; ++first) {
    const bool is_whole = std::ranges::any_of(
        blocks, [&](const Block& block) { return block.begin <= first && first + size <= block.end; });
    num_split += is_whole ? 0 : 1;
  }
  return static_cast<double>(num_split) / static_cast<double>(num_places);
}

// T12: max(0, s - 1 - h) / (B - h). B = 128, s = 14: 13 / 128 = 10.16 % without overlap, 0 with a halo of 32 (or of 13). s = 32:
// 31 / 128 = 24.2 %, 15 / 112 = 13.4 % with a halo of 16 (an eighth), 0 with 32 (a quarter).
TEST(OverlapPartition, SpansAsLongAsTheHaloAreNeverSplit) {
  const Compression plain = bare(128, PartitionKind::fixed);
  Compression eighth = bare(128, PartitionKind::overlap);
  eighth.partition.overlap_ppm = 125'000;
  const Compression quarter = bare(128, PartitionKind::overlap);
  EXPECT_DOUBLE_EQ(split_share(plain, 14), 13.0 / 128);
  EXPECT_EQ(split_share(eighth, 14), 0);
  EXPECT_EQ(split_share(quarter, 14), 0);
  EXPECT_DOUBLE_EQ(split_share(plain, 32), 31.0 / 128);
  EXPECT_DOUBLE_EQ(split_share(eighth, 32), 15.0 / 112);
  EXPECT_EQ(split_share(quarter, 32), 0);
}

// Halo 0.25 * 64 = 16: windows every 48 positions. Scored only, they are plain blocks; a quantized halo moves no window.
TEST(GridKey, IsEqualWhereBlocksBeginAndEndAlike) {
  Compression fixed = bare(64, PartitionKind::fixed);
  fixed.grid_offset = 2;
  EXPECT_EQ(grid_key(fixed), "64 2 64");
  Compression other = fixed;
  other.partition.kind = PartitionKind::random_offset;
  EXPECT_EQ(grid_key(other), "64 2 64");
  other.partition.kind = PartitionKind::overlap;
  EXPECT_EQ(grid_key(other), "64 2 48");
  other.partition.storage = OverlapStorage::quantized_halo;
  EXPECT_EQ(grid_key(other), "64 2 48");
  other.partition.storage = OverlapStorage::score_only;
  EXPECT_EQ(grid_key(other), "64 2 64");
  other.partition.kind = PartitionKind::content;
  other.partition.boundaries = {{10, 70}, 2048};
  EXPECT_EQ(grid_key(other), "64 2 64 of 2048: 10 70");
}

TEST(OverlapPartition, WindowsBeginEveryStride) {
  // Halo 0.25 * 128 = 32, stride 96. The windows from 192 and 288 reach beyond 300: not full, so protected.
  const Compression setting = bare(128, PartitionKind::overlap);
  EXPECT_EQ(block_stride(setting), 96);
  const std::vector<Block> blocks = partition_blocks(setting, 300);
  EXPECT_THAT(begins(setting, 300), ElementsAre(0, 96, 192, 288));
  EXPECT_EQ(blocks[1].end, 224);
  EXPECT_EQ(blocks[1].core_end, 192);
  EXPECT_FALSE(blocks[1].is_protected);
  EXPECT_TRUE(blocks[2].is_protected);
}

TEST(OverlapPartition, OffsetMovesEveryWindow) {
  Compression setting = bare(128, PartitionKind::overlap);
  setting.grid_offset = 10;
  EXPECT_THAT(begins(setting, 300), ElementsAre(0, 86, 182, 278));
}

TEST(OverlapPartition, ScoringHalosLeaveTheBlocksAlone) {
  Compression setting = bare(128, PartitionKind::overlap);
  setting.partition.storage = OverlapStorage::score_only;
  EXPECT_EQ(block_stride(setting), 128);
  EXPECT_THAT(begins(setting, 300), ElementsAre(0, 128, 256));
}

TEST(ContentPartition, BlockEndsAtTheLastBoundaryWithinItsSize) {
  Compression setting = bare(128, PartitionKind::content);
  setting.partition.boundaries = {{10, 100, 150}, 278};
  // From 0: 10 is nearer than a quarter block (32), 100 is the last within 128. From 100: 150. From 150: none up to 278.
  EXPECT_THAT(begins(setting, 278), ElementsAre(0, 100, 150));
  EXPECT_FALSE(partition_blocks(setting, 278).back().is_protected);
  // One position short of its full size, a boundary may still come.
  EXPECT_TRUE(partition_blocks(setting, 277).back().is_protected);
}

TEST(ContentPartition, BoundariesRepeatWithTheText) {
  Compression setting = bare(64, PartitionKind::content);
  setting.partition.boundaries = {{0, 50}, 100};
  EXPECT_THAT(begins(setting, 220), ElementsAre(0, 50, 100, 150, 200));
}

TEST(PrefixPad, FillsUpToTheMultiple) {
  const Compression setting = bare(128, PartitionKind::prefix_pad);
  EXPECT_EQ(padding_after(setting, 0), 0);
  EXPECT_EQ(padding_after(setting, 1), 127);
  EXPECT_EQ(padding_after(setting, 130), 126);
  EXPECT_EQ(padding_after(setting, 128), 0);
  // S6: (128 - 1) / 2 = 63.5 tokens in the mean.
  EXPECT_EQ(mean_padding(setting), 64);
  EXPECT_EQ(mean_padding(bare(128, PartitionKind::fixed)), 0);
}

TEST(PrefixPad, TextKeepsItsPlaceInTheGridBehindAnyPrefix) {
  Compression padded = bare(64, PartitionKind::prefix_pad);
  padded.partition.prefix_tokens = 20;
  for (std::int64_t shift = 0; shift < 200; ++shift) {
    // 20 + shift + padding is a multiple of 64, so that text from 20 on begins a block: offset 44.
    EXPECT_EQ(behind_prefix(padded, shift).grid_offset, 44) << shift;
  }
  // A multiple that is half a block leaves two places.
  padded.partition.prefix_tokens = 0;
  padded.partition.pad_multiple = 32;
  EXPECT_EQ(behind_prefix(padded, 1).grid_offset, 32);
  EXPECT_EQ(behind_prefix(padded, 33).grid_offset, 0);
}

TEST(PrefixPad, OtherGridsMoveWithThePrefix) {
  Compression setting = bare(64, PartitionKind::fixed);
  setting.grid_offset = 2;
  EXPECT_EQ(behind_prefix(setting, 61).grid_offset, 63);
  EXPECT_EQ(behind_prefix(setting, 62).grid_offset, 0);
  EXPECT_EQ(prefix_period(setting), 64);
  EXPECT_EQ(prefix_period(bare(128, PartitionKind::overlap)), 96);
}

TEST(RandomOffset, FromContentIsTheSameForTheSameText) {
  Compression setting = bare(128, PartitionKind::random_offset);
  setting.partition.is_from_content = true;
  setting.partition.content_key = 17;
  EXPECT_EQ(behind_prefix(setting, 5), behind_prefix(setting, 5));
  // 40 prefixes draw more than one of the 128 offsets.
  std::int64_t different = 0;
  for (std::int64_t shift = 1; shift < 40; ++shift) {
    different += behind_prefix(setting, shift).grid_offset != behind_prefix(setting, 0).grid_offset ? 1 : 0;
  }
  EXPECT_GT(different, 30);
}

TEST(Anchors, ProtectTheWholeBlockThatHoldsOne) {
  Compression setting = bare(64, PartitionKind::fixed);
  setting.anchors = {{63, 128}, 256};
  const std::vector<Block> blocks = partition_blocks(setting, 256);
  EXPECT_TRUE(blocks[0].is_protected);   // its last position is one
  EXPECT_FALSE(blocks[1].is_protected);  // 64..127 holds none
  EXPECT_TRUE(blocks[2].is_protected);   // its first position is one
  EXPECT_FALSE(blocks[3].is_protected);
  setting.anchor_scope = AnchorScope::token;
  EXPECT_FALSE(partition_blocks(setting, 256)[0].is_protected);
}

TEST(PositionPattern, RepeatsWithItsText) {
  const PositionPattern pattern{{10, 40}, 100};
  EXPECT_TRUE(pattern.contains(140));
  EXPECT_FALSE(pattern.contains(100));
  EXPECT_EQ(pattern.count_within(0, 250), 6);  // 10, 40, 110, 140, 210, 240
  EXPECT_EQ(pattern.count_within(40, 110), 1);
  EXPECT_EQ(pattern.count_within(40, 111), 2);
  EXPECT_EQ(pattern.last_within(50, 139, -1), 110);
  EXPECT_EQ(pattern.last_within(50, 109, -1), -1);
}

}  // namespace
}  // namespace kvtide::kv

#include "kv/partition.h"

#include <gtest/gtest.h>

#include "kv/compression/compression.h"

namespace kvtide::kv {
namespace {

Compression grid(std::int64_t block_size, std::int64_t offset, std::int64_t sinks, std::int64_t window) {
  Compression setting;
  setting.block_size = block_size;
  setting.grid_offset = offset;
  setting.sinks = sinks;
  setting.window = window;
  return setting;
}

// architecture.md: 2,021 positions in blocks of 128: 16 blocks; sinks and window protect the first and the last, 14 are
// free.
TEST(Partition, SinksAndWindowProtectWholeBlocks) {
  const std::vector<Block> blocks = partition_blocks(grid(128, 0, 4, 64), 2021);
  ASSERT_EQ(blocks.size(), 16u);
  int free_blocks = 0;
  for (const Block& block : blocks) free_blocks += block.is_protected ? 0 : 1;
  EXPECT_EQ(free_blocks, 14);
  EXPECT_TRUE(blocks.front().is_protected);
  EXPECT_TRUE(blocks.back().is_protected);
}

TEST(Partition, WindowEdgeDecidesByOnePosition) {
  // 256 positions, blocks of 64: the window of 64 is exactly the last block; of 65 it touches the one before.
  EXPECT_FALSE(partition_blocks(grid(64, 0, 0, 64), 256)[2].is_protected);
  EXPECT_TRUE(partition_blocks(grid(64, 0, 0, 65), 256)[2].is_protected);
  // Position 64 is the 65th: 64 sinks protect block 0 only, 65 block 1 too.
  EXPECT_FALSE(partition_blocks(grid(64, 0, 64, 0), 256)[1].is_protected);
  EXPECT_TRUE(partition_blocks(grid(64, 0, 65, 0), 256)[1].is_protected);
}

TEST(Partition, OffsetShortensTheFirstBlock) {
  const std::vector<Block> blocks = partition_blocks(grid(128, 2, 0, 0), 300);
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_EQ(blocks[0].end, 126);
  EXPECT_EQ(blocks[1].end, 254);
  EXPECT_EQ(blocks[2].end, 300);
}

TEST(Partition, NewestBlockIsProtectedUntilItIsFull) {
  EXPECT_TRUE(partition_blocks(grid(64, 0, 0, 0), 127)[1].is_protected);
  EXPECT_FALSE(partition_blocks(grid(64, 0, 0, 0), 128)[1].is_protected);
}

// Field case Q8: a prompt shorter than a block is one block, protected as the newest.
TEST(Partition, ShortPromptIsOneProtectedBlock) {
  const std::vector<Block> blocks = partition_blocks(grid(128, 0, 0, 0), 100);
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_TRUE(blocks[0].is_protected);
  EXPECT_TRUE(partition_blocks(grid(128, 0, 4, 64), 0).empty());
}

// Field case Q2: keep 10 % of 10, 100, 1000 -> 1, 10, 100 (binary floor(n * 0.9) would leave 0, 9, 99);
// n = 2 remove 60 % -> 1; n = 8 remove 95 % -> 1.
TEST(Partition, KeptCountIsExactInDecimal) {
  EXPECT_EQ(kept_count(10, 100'000), 1);
  EXPECT_EQ(kept_count(100, 100'000), 10);
  EXPECT_EQ(kept_count(1000, 100'000), 100);
  EXPECT_EQ(kept_count(2, 400'000), 1);
  EXPECT_EQ(kept_count(8, 50'000), 1);
  EXPECT_EQ(kept_count(9, 500'000), 5);
  EXPECT_EQ(kept_count(7, 1'000'000), 7);
  EXPECT_EQ(kept_count(0, 500'000), 0);
}

}  // namespace
}  // namespace kvtide::kv

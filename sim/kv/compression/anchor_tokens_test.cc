#include "kv/compression/anchor_tokens.h"

#include <gtest/gtest.h>

#include "kv/testing/random_layer.h"

namespace kvtide::kv {
namespace {

TEST(AnchorTokens, TheRestKeepsWhatTheBudgetLeaves) {
  // S5: r = 0.5, a = 0.1: (0.5 - 0.1) / 0.9 = 0.4444.
  EXPECT_EQ(keep_beside_anchors(500'000, 1000, 100), 444'444);
  EXPECT_EQ(keep_beside_anchors(500'000, 1000, 0), 500'000);
  // Anchors fill the budget, or exceed it: next to nothing is left, never less than nothing.
  EXPECT_EQ(keep_beside_anchors(500'000, 1000, 500), 1);
  EXPECT_EQ(keep_beside_anchors(500'000, 1000, 1000), 1);
}

// Four free blocks of 4 and a budget of half; 1 and 9 are anchors. The rest keeps (8 - 2) / (16 - 2) = 0.4286 of four
// blocks: 4 - floor(4 * 0.5714) = 2. Blocks 2 and 3 score best, so block 0 goes and its anchor stays.
TEST(AnchorTokens, StayExactWhenTheirBlockGoes) {
  const LayerTensors layer = testing::random_layer(1, 16, 8, 2);
  Compression setting;
  setting.block_size = 4;
  setting.sinks = 0;
  setting.window = 0;
  setting.anchors = {{1, 9}, 16};
  setting.anchor_scope = AnchorScope::token;
  setting.stages = {Evict{}};
  const LayerScores scores{{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1}};
  const HeadCache cache = compress_layer(setting, 16, 1, 8, scores, &layer).heads[0];
  const EntryTable& table = *cache.entries;
  EXPECT_EQ(table.entry_of[0], -1);
  ASSERT_GE(table.entry_of[1], 0);
  EXPECT_EQ(table.k.row(table.entry_of[1]), layer[0].k_post.row(1));
  ASSERT_GE(table.entry_of[9], 0);
  EXPECT_EQ(table.k.row(table.entry_of[9]), layer[0].k_post.row(9));
  EXPECT_EQ(table.k.rows(), 9);  // 8..15 and 1
  EXPECT_EQ(packed_pools(cache, 16).k[0].num_entries, 9);
}

TEST(AnchorTokens, StayOutOfCodecs) {
  Compression setting;
  setting.block_size = 8;
  setting.sinks = 0;
  setting.window = 0;
  setting.anchors = {{3}, 16};
  setting.anchor_scope = AnchorScope::token;
  setting.stages = {Quantize{.group = 8}};
  const HeadCache cache = compress_layer(setting, 16, 1, 8, {}, nullptr).heads[0];
  std::int64_t exact = 0;
  for (const Segment& segment : cache.segments) {
    if (segment.k_form.bits != 16) continue;
    EXPECT_EQ(segment.begin, 3);
    exact += segment.num_entries;
  }
  EXPECT_EQ(exact, 1);
}

}  // namespace
}  // namespace kvtide::kv

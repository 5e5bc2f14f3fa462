#include "kv/position_coding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kv/compression/compression.h"
#include "kv/testing/random_layer.h"

namespace kvtide::kv {
namespace {

using ::testing::ElementsAre;

TEST(PositionCoding, ContiguousClosesRanksBeforeTheNewest) {
  // 10 positions, 2..4 evicted: seven kept end at 9, so they begin at 3.
  EXPECT_THAT(position_turns(PositionCoding::contiguous, {0, 1, 5, 6, 7, 8, 9}, std::vector<std::uint8_t>(7, 1), 10, 1),
              ElementsAre(3, 3, 0, 0, 0, 0, 0));
}

TEST(PositionCoding, SmoothPlacesAGroupAtItsCentre) {
  // Width 4: 4..7 stand at 5.5; position 3 belongs to a protected block.
  EXPECT_THAT(position_turns(PositionCoding::smooth, {3, 4, 5, 6, 7}, {0, 1, 1, 1, 1}, 8, 4),
              ElementsAre(0, 1.5, 0.5, -0.5, -1.5));
  // Width 1 moves nothing.
  EXPECT_THAT(position_turns(PositionCoding::smooth, {3, 4}, {1, 1}, 5, 1), ElementsAre(0, 0));
}

// S9: kept keys are turned by what was evicted before them; what nothing was evicted behind is untouched, bit for bit.
TEST(PositionCoding, KeptKeysTurnByTheGapBehindThem) {
  LayerTensors layer = testing::random_layer(1, 10, 8, 3);
  Compression setting;
  setting.block_size = 1;
  setting.sinks = 2;
  setting.window = 5;
  setting.positions = PositionCoding::contiguous;
  setting.stages = {Evict{.keep = 700'000}};
  const LayerScores scores{std::vector<double>(10, 0.0)};
  const LayerCache cache = compress_layer(setting, 10, 1, 8, scores, &layer);
  const EntryTable& table = *cache.heads[0].entries;
  ASSERT_EQ(table.k.rows(), 7);
  RowMatrix expected = layer[0].k_pre;
  layer[0].rope.rotate({expected.row(1).data(), 8}, 4);  // position 1 moves to slot 4
  EXPECT_LT((table.k.row(1) - expected.row(1)).norm(), 1e-5);
  EXPECT_EQ(table.k.row(6), layer[0].k_post.row(9));
}

TEST(PositionCoding, WithoutEvictionContiguousChangesNothing) {
  const LayerTensors layer = testing::random_layer(1, 20, 8, 4);
  Compression setting;
  setting.block_size = 4;
  setting.positions = PositionCoding::contiguous;
  const LayerCache cache = compress_layer(setting, 20, 1, 8, {}, &layer);
  EXPECT_EQ(cache.heads[0].entries->k, layer[0].k_post);
}

}  // namespace
}  // namespace kvtide::kv

#include "gpu/block_dispatch.h"

#include <gtest/gtest.h>

namespace kvtide::gpu {
namespace {

TEST(BlockDispatch, EqualBlocksRunInWholeWaves) {
  // 4 slots, 3 s each: 1..4 blocks one wave, 5..8 two.
  EXPECT_DOUBLE_EQ(dispatch_in_waves({{1, 3.0}}, 4), 3);
  EXPECT_DOUBLE_EQ(dispatch_in_waves({{4, 3.0}}, 4), 3);
  EXPECT_DOUBLE_EQ(dispatch_in_waves({{5, 3.0}}, 4), 6);
  EXPECT_DOUBLE_EQ(dispatch_in_waves({{8, 3.0}}, 4), 6);
  EXPECT_DOUBLE_EQ(dispatch_in_waves({{9, 3.0}}, 4), 9);
}

TEST(BlockDispatch, ShortBlocksFillBesideALongOne) {
  // 2 slots: one block of 10 s occupies slot 0; five of 2 s follow one another on slot 1 and end at 10 s too; a sixth
  // at 12.
  EXPECT_DOUBLE_EQ(dispatch_in_waves({{1, 10.0}, {5, 2.0}}, 2), 10);
  EXPECT_DOUBLE_EQ(dispatch_in_waves({{5, 2.0}, {1, 10.0}}, 2), 10);
  EXPECT_DOUBLE_EQ(dispatch_in_waves({{1, 10.0}, {6, 2.0}}, 2), 12);
}

TEST(BlockDispatch, NoBlocksTakeNoTime) {
  EXPECT_EQ(dispatch_in_waves({}, 4), 0);
  EXPECT_EQ(dispatch_in_waves({{0, 5.0}}, 4), 0);
}

TEST(BlockDispatch, BillionBlocksCostNoMoreThanAFew) {
  // 1e9 blocks over 128 slots: 7,812,500 waves of 2 s exactly.
  EXPECT_DOUBLE_EQ(dispatch_in_waves({{1'000'000'000, 2.0}}, 128), 15'625'000);
}

// One block of 1e6 s holds one of 4 slots. 3e12 blocks of 1 us on the other three also take 1e6 s; 4e9 more are spread
// over all four: 1e9 each, 1,000 s.
TEST(BlockDispatch, ManyShortBlocksBesideALongOneCostNoMore) {
  EXPECT_NEAR(dispatch_in_waves({{1, 1e6}, {3'000'000'000'000 + 4'000'000'000, 1e-6}}, 4), 1'001'000, 1e-3);
}

}  // namespace
}  // namespace kvtide::gpu

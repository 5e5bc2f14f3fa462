#include "gpu/block_dispatch.h"

#include <gtest/gtest.h>

#include <cmath>

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

// 132 slots, 200 blocks: 132 start at once, 68 slots take a second one.
TEST(BlockDispatch, SlotsOfTheLastWaveAreDoneLater) {
  const std::vector<SlotsDone> done = dispatch_blocks({{200, 3.0}}, 132);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].num_slots, 64);
  EXPECT_DOUBLE_EQ(done[0].at, 3);
  EXPECT_EQ(done[1].num_slots, 68);
  EXPECT_DOUBLE_EQ(done[1].at, 6);
}

constexpr double kSharp = 1000;  // as good as the larger of both

// 4 slots, 5 blocks of 3 s, 15 slot seconds, memory 5 s: four slots ask for 4 x 5/15 = 4/3 of the memory, 3 s x 4/3 = 4 s;
// one asks for 1/3 and takes its own 3 s.
TEST(BlockDispatch, AFullWaveRunsAtTheMemorysPaceAndTheLastAtItsOwn) {
  const std::vector<SlotsDone> done = dispatch_blocks({{5, 3.0}}, 4);
  EXPECT_NEAR(time_on_shared_memory(done, 5, kSharp), 7, 1e-2);
}

TEST(BlockDispatch, MemoryThatIsFasterThanTheBlocksCostsNothing) {
  const std::vector<SlotsDone> done = dispatch_blocks({{5, 3.0}}, 4);
  EXPECT_DOUBLE_EQ(time_on_shared_memory(done, 0, 6), 6);
  // Even one slot's share of 15 s is beyond the memory's pace when all of it takes 150 s: 4 slots ask for 40, one for 10.
  EXPECT_NEAR(time_on_shared_memory(done, 150, kSharp), 3 * 40 + 3 * 10, 1e-6);
}

// Whole waves, both equally slow, 6 s: (1 + 1^p)^(1/p) = sqrt(2) at p = 2.
TEST(BlockDispatch, AtSaturationBothSlowEachOtherDown) {
  const std::vector<SlotsDone> done = dispatch_blocks({{8, 3.0}}, 4);
  EXPECT_NEAR(time_on_shared_memory(done, 6, 2), 6 * std::sqrt(2), 1e-12);
}

TEST(BlockDispatch, WithoutBlocksTheMemoryAloneTakesItsTime) {
  EXPECT_EQ(time_on_shared_memory(dispatch_blocks({}, 4), 2.5, 6), 2.5);
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

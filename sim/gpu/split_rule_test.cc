#include "gpu/split_rule.h"

#include <gtest/gtest.h>

namespace kvtide::gpu {
namespace {

SplitWork work(std::int64_t num_blocks, std::int64_t num_tiles) {
  return {.num_blocks = num_blocks,
          .num_tiles = num_tiles,
          .total_tiles = static_cast<double>(num_blocks * num_tiles),
          .num_history = 128 * num_tiles,
          .num_sms = 132};
}

TEST(SplitRule, NamesAreInTheOrderOfTheRules) {
  EXPECT_EQ(split_rule_of("none"), SplitRule::none);
  EXPECT_EQ(split_rule_of("by_history"), SplitRule::by_history);
  EXPECT_EQ(split_rule_of("fixed"), SplitRule::fixed);
}

// The header's example.
TEST(SplitRule, CutsByTheFrameworksOwnHeuristic) {
  EXPECT_EQ(split_count(SplitRule::none, work(64, 32)), 1);
  EXPECT_EQ(split_count(SplitRule::fill_waves, work(64, 32)), 4);
  EXPECT_EQ(split_count(SplitRule::balance_tiles, work(64, 32)), 2);
  EXPECT_EQ(split_count(SplitRule::by_history, work(64, 32)), 16);
  EXPECT_EQ(split_count(SplitRule::cover_sms, work(64, 32)), 3);
  EXPECT_EQ(split_count(SplitRule::within_slots, work(64, 32)), 2);
  EXPECT_EQ(split_count(SplitRule::fixed, work(64, 32)), 128);
}

// 212 >= 0.8 x 264 = 211.2 blocks occupy the machine alone; 211 do not: fillings .799 .799 .799 .799 .999, so 5.
TEST(SplitRule, FillWavesLeavesAnOccupiedMachineAlone) {
  EXPECT_EQ(split_count(SplitRule::fill_waves, work(212, 32)), 1);
  EXPECT_EQ(split_count(SplitRule::fill_waves, work(211, 32)), 5);
}

// 120 x 8 x 1.1 / 132 = 8 tiles a block: one block. 119 tasks: 7.93, rounded up: one block as well. 108: 7.2 -> 8; 96:
// 6.4 -> 7 tiles a block, so the task of 8 is cut in two.
TEST(SplitRule, BalanceTilesCutsWhatIsLongerThanAnEqualShare) {
  EXPECT_EQ(split_count(SplitRule::balance_tiles, work(120, 8)), 1);
  EXPECT_EQ(split_count(SplitRule::balance_tiles, work(96, 8)), 2);
  // A task that is long among short ones: 1,000 tiles in all, 8.3 -> 9 a block, its 90 tiles make 10 blocks.
  SplitWork ragged = work(64, 90);
  ragged.total_tiles = 1000;
  EXPECT_EQ(split_count(SplitRule::balance_tiles, ragged), 10);
}

// 66 blocks x 16 = 1,056 = 8.0 waves of 132, the most; 67: 8.12 waves, 16 / (8.12 / 8) = 15.8, so 15.
TEST(SplitRule, ByHistoryStopsAtEightWavesAndIgnoresTheWindow) {
  EXPECT_EQ(split_count(SplitRule::by_history, work(66, 32)), 16);
  EXPECT_EQ(split_count(SplitRule::by_history, work(67, 32)), 15);
  EXPECT_EQ(split_count(SplitRule::by_history, work(2000, 32)), 1);
  SplitWork windowed = work(4, 2);  // two tiles are read of 4096 entries
  windowed.num_history = 4096;
  EXPECT_EQ(split_count(SplitRule::by_history, windowed), 16);
}

// 132 / 66 = 2; 67 tasks: 1.97, one part of which a block more (cover) or none (within).
TEST(SplitRule, CoverRoundsUpAndWithinRoundsDown) {
  EXPECT_EQ(split_count(SplitRule::cover_sms, work(66, 32)), 2);
  EXPECT_EQ(split_count(SplitRule::within_slots, work(66, 32)), 2);
  EXPECT_EQ(split_count(SplitRule::cover_sms, work(67, 32)), 2);
  EXPECT_EQ(split_count(SplitRule::within_slots, work(67, 32)), 1);
  SplitWork two_resident = work(67, 32);
  two_resident.blocks_per_sm = 2;
  EXPECT_EQ(split_count(SplitRule::within_slots, two_resident), 3);
}

TEST(SplitRule, NoMorePartsThanTilesOrTheKernelsLimit) {
  EXPECT_EQ(split_count(SplitRule::cover_sms, work(1, 5)), 5);
  SplitWork few = work(1, 1000);
  few.max_splits = 3;
  for (const SplitRule rule : {SplitRule::fill_waves, SplitRule::balance_tiles, SplitRule::by_history,
                               SplitRule::cover_sms, SplitRule::within_slots, SplitRule::fixed}) {
    EXPECT_EQ(split_count(rule, few), 3);
  }
}

}  // namespace
}  // namespace kvtide::gpu

#include "loss/phase_profile.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvtide::loss {
namespace {

TEST(PhaseProfile, PhaseZeroIsTheFirstPositionOfABlock) {
  // Blocks of 4 begin at 3 and 7: grid_offset 1.
  const std::vector<double> loss = {0, 0, 0, 5, 0, 0, 0, 7};
  const PhaseProfile profile = fold_by_phase(loss, 4, 1, 4);
  EXPECT_EQ(profile.mean, (std::vector<double>{6, 0, 0, 0}));
  EXPECT_EQ(profile.count, (std::vector<std::int64_t>{2, 2, 2, 2}));
}

TEST(PhaseProfile, BinsGatherNeighbouringPhases) {
  const std::vector<double> loss = {1, 2, 3, 4, 5};
  const PhaseProfile profile = fold_by_phase(loss, 5, 0, 2);  // phases 0, 1, 2 -> bin 0; 3, 4 -> bin 1
  EXPECT_EQ(profile.mean, (std::vector<double>{2, 4.5}));
}

TEST(PhaseProfile, MaskedPositionsAreLeftOut) {
  const PhaseProfile profile =
      fold_by_phase(std::vector<double>{9, 1, 2, 3}, 2, 0, 2, std::vector<std::uint8_t>{1, 0, 1, 0});
  EXPECT_TRUE(std::isnan(profile.mean[0]));
  EXPECT_EQ(profile.count[0], 0);
  EXPECT_EQ(profile.mean[1], 2);
}

TEST(PhaseProfile, EdgeDistanceCountsFromBothEnds) {
  const std::vector<double> loss = {3, 2, 1, 2, 3};  // one block of 5
  const PhaseProfile profile = fold_by_edge_distance(loss, 5, 0);
  EXPECT_EQ(profile.mean, (std::vector<double>{3, 2, 1}));
  EXPECT_EQ(profile.count, (std::vector<std::int64_t>{2, 2, 1}));
}

// T1: half of the phases lose everything: worst / mean = 2.
TEST(PhaseProfile, AlternateBlocksAreTwiceTheMean) {
  std::vector<double> loss(256);
  for (std::size_t j = 0; j < loss.size(); ++j) loss[j] = j / 32 % 2 == 0 ? 0 : 1;
  EXPECT_NEAR(worst_phase_over_mean(fold_by_phase(loss, 64, 0, 64)), 2, 1e-12);
  for (double& lost : loss) lost = 0.1 + 0.2 * lost;  // 0.1 and 0.3: mean 0.2
  EXPECT_NEAR(worst_phase_over_mean(fold_by_phase(loss, 64, 0, 64)), 1.5, 1e-12);
  EXPECT_TRUE(std::isnan(worst_phase_over_mean(fold_by_phase(std::vector<double>(8, 0.0), 4, 0, 4))));
}

}  // namespace
}  // namespace kvtide::loss

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

}  // namespace
}  // namespace kvtide::loss

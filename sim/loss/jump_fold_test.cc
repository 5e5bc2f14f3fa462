#include "loss/jump_fold.h"

#include <gtest/gtest.h>

namespace kvtide::loss {
namespace {

TEST(JumpFold, JumpsFallOnThePhaseOfTheLaterPosition) {
  const std::vector<std::vector<double>> profiles{{0, 0, 1, 1, 0, 0, 0, 0}};
  EXPECT_EQ(fold_jumps(profiles, 2, 0), (std::vector<double>{1, 0}));
  EXPECT_EQ(fold_jumps(profiles, 2, 1), (std::vector<double>{0, 1}));
  // Period 4: position 2 is phase 2, position 4 phase 0.
  EXPECT_EQ(fold_jumps(profiles, 4, 0), (std::vector<double>{0.5, 0, 0.5, 0}));
}

TEST(JumpFold, SizesWeigh) {
  // Jumps of 0.25 at position 1 and 0.75 at position 2.
  EXPECT_EQ(fold_jumps({{0, 0.25, 1}}, 3, 0), (std::vector<double>{0, 0.25, 0.75}));
}

TEST(JumpFold, FlatProfilesHaveNoJumps) {
  EXPECT_EQ(fold_jumps({{1, 1, 1}}, 2, 0), (std::vector<double>{0, 0}));
}

}  // namespace
}  // namespace kvtide::loss

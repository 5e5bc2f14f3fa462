#include "loss/curve_period.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvtide::loss {
namespace {

TEST(CurvePeriod, SmallestExactRepetition) {
  const std::vector<double> triangle{0, 1, 2, 1, 0, 1, 2, 1, 0};
  EXPECT_EQ(find_curve_period(triangle).samples, 4);
  EXPECT_EQ(find_curve_period(triangle).agreeing, 5);
}

TEST(CurvePeriod, OneDifferentValueIsNoRepetition) {
  EXPECT_EQ(find_curve_period(std::vector<double>{0, 1, 2, 1, 0, 1, 2, 1.1, 0}).samples, 0);
}

TEST(CurvePeriod, NeedsTwoPeriodsAndAChange) {
  EXPECT_EQ(find_curve_period(std::vector<double>{0, 1, 2, 1, 0, 1, 2}).samples, 0);  // 7 values, period 4
  EXPECT_EQ(find_curve_period(std::vector<double>{0, 1, 2, 1, 0, 1, 2, 1}).samples, 4);
  EXPECT_EQ(find_curve_period(std::vector<double>(20, 3.0)).samples, 0);
}

}  // namespace
}  // namespace kvtide::loss

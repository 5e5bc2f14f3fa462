#include "loss/curve_period.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

// 64 over 4 x 64: 16 samples, every fourth shift and 0, 1, 2, 3 more in turn: 0, 5, 10, 15, 16, ...; with 1..4 they are 20.
TEST(SampledShifts, HaveEveryRemainderByFourAndRepeat) {
  const std::vector<std::int64_t> shifts = sampled_shifts(256, 64, 4);
  const std::vector<std::int64_t> first(shifts.begin(), shifts.begin() + 20);
  EXPECT_THAT(first, testing::ElementsAre(0, 1, 2, 3, 4, 5, 10, 15, 16, 21, 26, 31, 32, 37, 42, 47, 48, 53, 58, 63));
  EXPECT_EQ(shifts.size(), 4 * 20 + 1U);
  EXPECT_EQ(shifts[20], 64);
  EXPECT_EQ(shifts[23], 67);
  EXPECT_EQ(shifts.back(), 256);
}

// 24 samples are as many as three halves of 16; of 25 every fourth is taken: 0, 5, 10, 15, 16, 21 and 1, 2.
TEST(SampledShifts, AreAllOfASmallBlock) {
  EXPECT_EQ(sampled_shifts(96, 24, 2).size(), 97U);
  const std::vector<std::int64_t> some = sampled_shifts(100, 25, 2);
  EXPECT_EQ(std::ranges::count_if(some, [](std::int64_t shift) { return shift < 25; }), 8);
  EXPECT_THAT(sampled_shifts(0, 1, 8), testing::ElementsAre(0));
  EXPECT_THAT(sampled_shifts(3, 64, 8), testing::ElementsAre(0, 1, 2, 3));
}

// A curve of period 32 in blocks of 64 has pairs (0, 32), (5, 37), ... (31, 63) that agree.
TEST(ResiduePeriod, IsTheSmallestDivisorThatAgrees) {
  const auto found = [](std::int64_t period, std::int64_t block) {
    const std::vector<std::int64_t> shifts = sampled_shifts(4 * block, block, 4);
    std::vector<double> curve;
    for (const std::int64_t shift : shifts) {
      const std::int64_t residue = shift % period;
      curve.push_back(static_cast<double>(std::min(residue, period - residue)));
    }
    return find_residue_period(shifts, curve, block);
  };
  EXPECT_EQ(found(64, 64), 64);
  EXPECT_EQ(found(32, 64), 32);
  EXPECT_EQ(found(4, 64), 4);
  EXPECT_EQ(found(66, 66), 66);
  EXPECT_EQ(found(131, 131), 131);
}

TEST(ResiduePeriod, NeedsTwoPeriodsAndAChange) {
  const std::vector<std::int64_t> shifts{0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<double> curve{0, 1, 2, 1, 0, 1, 2, 1};
  EXPECT_EQ(find_residue_period(shifts, curve, 4), 0);  // 7 tokens at most
  EXPECT_EQ(find_residue_period(std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 8}, curve, 4), 4);
  EXPECT_EQ(find_residue_period(shifts, std::vector<double>(8, 3.0), 2), 0);
}

}  // namespace
}  // namespace kvtide::loss

#include "experiment/last_within.h"

#include <gtest/gtest.h>

namespace kvtide::experiment {
namespace {

class LastWithin : public testing::Test {
 protected:
  std::int64_t find(Bytes limit, std::int64_t most, const std::function<Bytes(std::int64_t)>& bytes) {
    num_asked_ = 0;
    return last_within(limit, most, bytes(most), [&](std::int64_t n) {
      ++num_asked_;
      EXPECT_GE(n, 1);
      EXPECT_LT(n, most);
      return bytes(n);
    });
  }
  int num_asked_ = 0;
};

Bytes hundreds(std::int64_t n) {
  return 100 * static_cast<Bytes>(n);
}

// 123 hundreds are within 12,399 and within 12,300, 124 are not: the guess, and the one behind it.
TEST_F(LastWithin, AProportionIsFoundInTwoSteps) {
  EXPECT_EQ(find(12'399, 1'000'000, hundreds), 123);
  EXPECT_LE(num_asked_, 3);
  EXPECT_EQ(find(12'300, 1'000'000, hundreds), 123);
  EXPECT_LE(num_asked_, 3);
  EXPECT_EQ(find(12'299, 1'000'000, hundreds), 122);
}

TEST_F(LastWithin, BothEndsCanBeTheAnswer) {
  EXPECT_EQ(find(99, 1000, hundreds), 0);
  EXPECT_EQ(find(0, 1000, hundreds), 0);
  EXPECT_EQ(find(99'999, 1000, hundreds), 999);
  EXPECT_EQ(find(99, 1, hundreds), 0);
  EXPECT_EQ(num_asked_, 0);
}

// Straight lines guess badly here. 2 log2(2^20) + 2 = 42.
TEST_F(LastWithin, AnyGrowthTakesAtMostTwiceTheBisection) {
  const std::int64_t most = 1 << 20;
  EXPECT_EQ(find(1, most, [](std::int64_t n) { return n <= 777 ? Bytes{1} : Bytes{1} << 50; }), 777);
  EXPECT_LE(num_asked_, 42);
  EXPECT_EQ(find(999'999, most, [](std::int64_t n) { return static_cast<Bytes>(n) * static_cast<Bytes>(n); }), 999);
  EXPECT_LE(num_asked_, 42);
  EXPECT_EQ(find((Bytes{1} << 50) - 1, most, [&](std::int64_t n) { return n < most - 3 ? Bytes{0} : Bytes{1} << 50; }),
            most - 4);
  EXPECT_LE(num_asked_, 42);
}

// The open part of a block of 8 counts double: 8 n without it. Whatever is found, the next one does not fit.
TEST_F(LastWithin, WhereBytesSwingOneMoreDoesNotFit) {
  const auto swinging = [](std::int64_t n) { return static_cast<Bytes>(8 * n + 8 * (n % 8)); };
  for (Bytes limit = 0; limit < 3000; ++limit) {
    const std::int64_t found = find(limit, 1000, swinging);
    EXPECT_LE(swinging(found), limit);
    EXPECT_GT(swinging(found + 1), limit);
  }
}

}  // namespace
}  // namespace kvtide::experiment

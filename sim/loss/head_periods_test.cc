#include "loss/head_periods.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "loss/testing/autoregressive_noise.h"

namespace kvtide::loss {
namespace {

// k q / 4 = 0.0025, 0.005, 0.0075, 0.01: 0.001 and 0.004 pass; a third at 0.0075 would pass with them, at 0.0076 not.
TEST(BenjaminiHochberg, LargestRankBelowTheLineDecides) {
  EXPECT_EQ(benjamini_hochberg(std::vector<double>{0.2, 0.004, 0.9, 0.001}, 0.01),
            (std::vector<std::uint8_t>{0, 1, 0, 1}));
  EXPECT_EQ(benjamini_hochberg(std::vector<double>{0.0075, 0.004, 0.9, 0.001}, 0.01),
            (std::vector<std::uint8_t>{1, 1, 0, 1}));
  EXPECT_EQ(benjamini_hochberg(std::vector<double>{0.0076, 0.004, 0.9, 0.001}, 0.01),
            (std::vector<std::uint8_t>{0, 1, 0, 1}));
  // A later rank below the line carries earlier ones above it: 0.004 > 0.0025, but 0.0049 <= 0.005.
  EXPECT_EQ(benjamini_hochberg(std::vector<double>{0.004, 0.0049, 0.5, 0.5}, 0.01),
            (std::vector<std::uint8_t>{1, 1, 0, 0}));
  EXPECT_TRUE(benjamini_hochberg({}, 0.01).empty());
}

TEST(HeadPeriods, OneSquareWaveAmongNoiseIsNamed) {
  std::vector<std::vector<double>> heads;
  for (std::uint64_t head = 0; head < 6; ++head) heads.push_back(autoregressive(1024, 0, head));
  for (std::size_t j = 0; j < 1024; ++j) heads[2][j] += j % 64 < 32 ? 1 : -1;
  heads.emplace_back(1024, 0.5);  // constant: p 1
  const std::vector<std::int64_t> periods{48, 64};
  const HeadPeriods found = find_head_periods(heads, periods, 1);
  EXPECT_EQ(found.rotations, 1400);  // 14 tests / 0.01
  ASSERT_EQ(found.is_found.size(), 14U);
  EXPECT_EQ(found.is_found[2 * 2 + 1], 1);
  EXPECT_EQ(std::accumulate(found.is_found.begin(), found.is_found.end(), 0), 1);
  EXPECT_EQ(found.p[6 * 2], 1);
  EXPECT_GE(*std::min_element(found.p.begin(), found.p.end()), 1.0 / 1401);
}

TEST(HeadPeriods, MoreTestsThanRotationsAreRefused) {
  const std::vector<std::vector<double>> heads(200, std::vector<double>(16, 0.0));
  std::vector<std::int64_t> periods(501, 4);
  EXPECT_THROW((void)find_head_periods(heads, periods, 1), InputError);  // 100,200 tests / 0.01
}

}  // namespace
}  // namespace kvtide::loss

#include "kv/compression/lanes.h"

#include <gtest/gtest.h>

#include <array>

namespace kvtide::kv {
namespace {

TEST(SumOf, AddsTheLanesThatWereLoaded) {
  const std::array<float, 3> values{1, 2, 4};
  Lanes lanes;
  load(values.data(), 3, lanes);
  EXPECT_EQ(sum_of(lanes), 7);
  EXPECT_EQ(lanes[3], 0);
}

// Row r holds 16 r + 0 .. 16 r + 15: 16 * 16 r + 120.
TEST(SumEach, PutsTheSumOfEveryRowIntoItsLane) {
  Lanes rows[kNumLanes];
  for (std::int64_t row = 0; row < kNumLanes; ++row) {
    for (std::int64_t lane = 0; lane < kNumLanes; ++lane) rows[row][lane] = static_cast<float>(16 * row + lane);
  }
  sum_each(rows);
  std::array<float, kNumLanes> sums{};
  store(rows[0], sums.data());
  for (std::size_t row = 0; row < sums.size(); ++row) EXPECT_EQ(sums[row], static_cast<float>(256 * row + 120));
}

// Row r holds 16 r + 0 .. 16 r + 15: lane c of it belongs into lane r of row c.
TEST(Transpose, SwapsRowsAndLanes) {
  Lanes rows[kNumLanes];
  for (std::int64_t row = 0; row < kNumLanes; ++row) {
    for (std::int64_t lane = 0; lane < kNumLanes; ++lane) rows[row][lane] = static_cast<float>(16 * row + lane);
  }
  transpose(rows);
  for (std::int64_t row = 0; row < kNumLanes; ++row) {
    for (std::int64_t lane = 0; lane < kNumLanes; ++lane)
      EXPECT_EQ(rows[row][lane], static_cast<float>(16 * lane + row));
  }
}

TEST(WholeLanes, RoundUpToARegister) {
  EXPECT_EQ(whole_lanes(0), 0);
  EXPECT_EQ(whole_lanes(16), 16);
  EXPECT_EQ(whole_lanes(17), 32);
}

}  // namespace
}  // namespace kvtide::kv

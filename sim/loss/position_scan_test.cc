#include "loss/position_scan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"

namespace kvtide::loss {
namespace {

TEST(PositionScan, AFactIsAsGoodAsItsWorstToken) {
  const PositionScan scan = scan_positions(std::vector<double>{0, 0, 1, 0, 0.25}, 2);
  EXPECT_EQ(scan.position, (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(scan.success, (std::vector<double>{1, 0, 0, 0.75}));
  EXPECT_EQ(scan.margin, (std::vector<double>{0.5, -0.5, -0.5, 0.25}));
}

TEST(PositionScan, SpanAsLongAsTheProfileGivesOnePosition) {
  EXPECT_EQ(scan_positions(std::vector<double>{0, 0.5, 0.2}, 3).success, (std::vector<double>{0.5}));
  EXPECT_TRUE(scan_positions(std::vector<double>{0, 0.5, 0.2}, 4).success.empty());
  EXPECT_TRUE(std::isnan(scan_positions(std::vector<double>{0, 0.5, 0.2}, 4).stability));
  EXPECT_THROW((void)scan_positions(std::vector<double>{0}, 0), InputError);
}

TEST(PositionScan, LossOutsideTheUnitIntervalIsClamped) {
  EXPECT_EQ(scan_positions(std::vector<double>{-0.5, 1.5}, 1).success, (std::vector<double>{1, 0}));
}

// T12: a span of s at a random place crosses an edge of blocks of B with probability (s - 1)/B: 13/128 = 10.16 %.
// Every other block evicted: a crossing span always loses, a whole one half the time.
TEST(PositionScan, SplitSpansFailOnTopOfTheEvictedShare) {
  std::vector<double> loss(128 * 16 + 13);
  for (std::size_t j = 0; j < loss.size(); ++j) loss[j] = j / 128 % 2 == 0 ? 0 : 1;
  const PositionScan scan = scan_positions(loss, 14);
  double failed = 0;
  for (const double success : scan.success) failed += success < 0.5 ? 1 : 0;
  ASSERT_EQ(scan.success.size(), 128U * 16);
  EXPECT_NEAR(failed / (128 * 16), 0.5 + 0.5 * 13 / 128, 1e-12);
}

// T13: random block keep f, blocks independent. A span is kept with probability f where it lies in one block and f^2 at
// the s - 1 splitting phases: f - f (1 - f)(s - 1)/B = 0.5 - 0.25 * 13/B. T21: 1/2 inside, 1/4 at the splitting phases.
TEST(PositionScan, RandomBlockKeepLosesSplitSpansTwice) {
  for (const std::int64_t block_size : {64, 128, 256}) {
    double kept = 0;
    double whole = 0;
    double split = 0;
    constexpr std::int64_t kMasks = 400;
    const std::int64_t positions = 16 * block_size;
    for (std::uint64_t seed = 0; seed < kMasks; ++seed) {
      RandomStream random(seed, "test.block_keep");
      std::vector<double> loss;
      for (std::int64_t block = 0; block < 17; ++block) {
        const double lost = random.uniform() < 0.5 ? 1 : 0;
        loss.insert(loss.end(), static_cast<std::size_t>(block < 16 ? block_size : 13), lost);
      }
      const PositionScan scan = scan_positions(loss, 14);
      ASSERT_EQ(static_cast<std::int64_t>(scan.success.size()), positions);
      for (std::int64_t j = 0; j < positions; ++j) {
        const double success = scan.success[static_cast<std::size_t>(j)];
        kept += success;
        (j % block_size <= block_size - 14 ? whole : split) += success;
      }
    }
    const auto all = static_cast<double>(kMasks * positions);
    const double split_share = 13.0 / static_cast<double>(block_size);
    // 400 masks of 16 fair blocks: standard error of the mean sqrt(0.25 / 6400) = 0.006.
    EXPECT_NEAR(kept / all, 0.5 - 0.25 * split_share, 0.02) << block_size;
    EXPECT_NEAR(whole / (all * (1 - split_share)), 0.5, 0.02) << block_size;
    EXPECT_NEAR(split / (all * split_share), 0.25, 0.02) << block_size;
  }
}

}  // namespace
}  // namespace kvtide::loss

#include "serving/latency_histogram.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvtide::serving {
namespace {

// 99 of 10 ms and one of 50 ms: order statistic 0.99 x 99 = 98.01 lies between the 99th value (10 ms) and the 100th (50 ms); a bin answers
// with the value at or above: 50 ms. At 0.98 it is the 98th: 10 ms. Mean (990 + 50) / 100 = 10.4 ms.
TEST(LatencyHistogram, QuantilesAreWithinABinOfTheOrderStatistic) {
  LatencyHistogram histogram;
  histogram.add(0.010, 99);
  histogram.add(0.050);
  EXPECT_EQ(histogram.count(), 100);
  EXPECT_NEAR(histogram.quantile(0.5), 0.010, 0.010 * 0.002);
  EXPECT_NEAR(histogram.quantile(0.98), 0.010, 0.010 * 0.002);
  EXPECT_NEAR(histogram.quantile(1), 0.050, 0.050 * 0.002);
  EXPECT_DOUBLE_EQ(histogram.mean(), 0.0104);
  EXPECT_DOUBLE_EQ(histogram.max(), 0.050);
}

TEST(LatencyHistogram, OfNothingIsNotANumber) {
  const LatencyHistogram histogram;
  EXPECT_TRUE(std::isnan(histogram.quantile(0.5)));
  EXPECT_TRUE(std::isnan(histogram.mean()));
  EXPECT_TRUE(histogram.bins().empty());
}

// Two values 10 % apart lie 48 bins of 0.2 % apart (ln 1.1 / 0.002 = 47.7): two bins; merged by 1,000 they are one of both.
TEST(LatencyHistogram, MergedBinsKeepTheirCounts) {
  LatencyHistogram histogram;
  histogram.add(0.1, 3);
  histogram.add(0.11, 4);
  ASSERT_EQ(histogram.bins().size(), 2U);
  EXPECT_EQ(histogram.bins()[1].count, 4);
  std::int64_t sum = 0;
  for (const LatencyHistogram::Bin& bin : histogram.bins(10)) sum += bin.count;
  EXPECT_EQ(sum, 7);
}

// Beyond both ends: counted in the last bin, the largest value stays exact.
TEST(LatencyHistogram, ValuesBeyondTheEndsAreCounted) {
  LatencyHistogram histogram;
  histogram.add(0);
  histogram.add(1e9);
  EXPECT_EQ(histogram.count(), 2);
  EXPECT_DOUBLE_EQ(histogram.max(), 1e9);
  EXPECT_LT(histogram.quantile(0), 1.1e-7);
}

}  // namespace
}  // namespace kvtide::serving

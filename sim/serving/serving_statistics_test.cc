#include "serving/serving_statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvtide::serving {
namespace {

TEST(Quantile, IsLinearBetweenOrderStatistics) {
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_DOUBLE_EQ(quantile({10, 20}, 0.25), 12.5);
  EXPECT_DOUBLE_EQ(quantile({7}, 0.99), 7);
}

// t(2, 97.5 %) = 4.303 (any table); standard deviation 0.1.
TEST(SeedInterval, IsStudentsForFewSeeds) {
  const Interval interval = interval_over_seeds({1.0, 1.2, 1.1});
  EXPECT_NEAR(interval.mean, 1.1, 1e-12);
  EXPECT_NEAR(interval.half_width, 4.303 * 0.1 / std::sqrt(3.0), 1e-4);
  EXPECT_TRUE(std::isnan(interval_over_seeds({1.0}).half_width));
}

RequestTimes times(double ttft, double latency, std::int64_t tokens) {
  RequestTimes one;
  one.first_token = from_seconds(ttft);
  one.last_token = from_seconds(latency);
  one.input_tokens = 100;
  one.output_tokens = tokens;
  return one;
}

// Two of three requests within 1 s to the first token; the second of them takes (2.9 - 0.9) / 10 = 0.2 s a token. Over 10 s.
TEST(Goodput, CountsRequestsThatKeepEveryObjective) {
  const std::vector<RequestTimes> requests{times(0.5, 1.5, 11), times(0.9, 2.9, 11), times(1.1, 2.1, 11)};
  const auto goodput = [&](const Objectives& objectives) {
    return figures_of(requests, from_seconds(10), objectives).goodput;
  };
  EXPECT_DOUBLE_EQ(goodput({}), 0.3);
  EXPECT_DOUBLE_EQ(goodput({.ttft = 1}), 0.2);
  EXPECT_DOUBLE_EQ(goodput({.ttft = 1, .tpot = 0.15}), 0.1);
  EXPECT_DOUBLE_EQ(goodput({.ttft = 1, .tpot = 0.25}), 0.2);
  EXPECT_DOUBLE_EQ(goodput({.latency = 1.4}), 0);
}

// 250,001 values 1 ms, 2 ms, ... beyond the 200,000 kept one by one: the median is 125.001 s, bins are 0.2 % wide; the mean stays exact.
TEST(LatencySample, ManyValuesAreCountedInBins) {
  LatencySample sample;
  for (int i = 1; i <= 250'001; ++i) sample.add(i * 1e-3);
  EXPECT_NEAR(sample.figures().p50, 125.001, 125 * 0.001);
  EXPECT_NEAR(sample.figures().p99, 247.501, 247.5 * 0.001);
  EXPECT_NEAR(sample.figures().mean, 125.001, 1e-6);
}

}  // namespace
}  // namespace kvtide::serving

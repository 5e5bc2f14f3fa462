#include "loss/span_statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace kvtide::loss {
namespace {

TEST(SpanStatistics, MeanIsWeightedByAttentionAndWorstIsNot) {
  const std::vector<double> loss = {0, 1, 0, 0};
  const std::vector<double> attention = {0.7, 0.1, 0.1, 0.1};
  const SpanStatistics result = span_statistics(loss, attention, {}, 2);
  EXPECT_NEAR(result.mean, 0.1, 1e-15);
  EXPECT_NEAR(result.worst, 0.5, 1e-15);  // (0 + 1) / 2, first at 0..1
  EXPECT_EQ(result.worst_begin, 0);
  EXPECT_NEAR(result.worst_over_mean, 5, 1e-12);
}

TEST(SpanStatistics, SpansDoNotReachIntoProtectedPositions) {
  const std::vector<double> loss = {1, 1, 0, 0.4, 0.2, 0, 0, 1};
  const std::vector<std::uint8_t> is_protected = {1, 1, 0, 0, 0, 0, 0, 1};
  const SpanStatistics result = span_statistics(loss, {}, is_protected, 2);
  EXPECT_NEAR(result.worst, 0.3, 1e-15);  // 0.4 and 0.2
  EXPECT_EQ(result.worst_begin, 3);
}

TEST(SpanStatistics, ARunShorterThanTheSpanIsOneSpan) {
  const SpanStatistics result = span_statistics(std::vector<double>{0.2, 0.4}, {}, {}, 8);
  EXPECT_NEAR(result.worst, 0.3, 1e-15);
}

TEST(SpanStatistics, NothingOpenMeansNothingWorst) {
  const SpanStatistics result = span_statistics(std::vector<double>{0, 0}, {}, std::vector<std::uint8_t>{1, 1}, 1);
  EXPECT_EQ(result.worst, 0);
  EXPECT_EQ(result.worst_begin, -1);
  EXPECT_EQ(result.cvar05, 0);
  EXPECT_TRUE(std::isnan(result.worst_over_mean));
}

TEST(SpanStatistics, LostRunNeedsMoreThanOneHalf) {
  const std::vector<double> loss = {0.6, 0.5, 0.51, 0.9, 0.7, 0.2};
  EXPECT_EQ(span_statistics(loss, {}, {}, 1).longest_lost_run, 3);
}

TEST(SpanStatistics, SpanBelowOneIsRefused) {
  EXPECT_THROW((void)span_statistics(std::vector<double>{0}, {}, {}, 0), InputError);
  EXPECT_NO_THROW((void)span_statistics(std::vector<double>{0}, {}, {}, 1));
}

TEST(ConditionalValueAtRisk, TakesTheLastValueInPart) {
  std::vector<double> values(30, 0.0);
  values[7] = 1;
  values[20] = 0.5;
  EXPECT_NEAR(conditional_value_at_risk(values, 0.05), (1 + 0.5 * 0.5) / 1.5, 1e-12);  // 1.5 values
  EXPECT_EQ(conditional_value_at_risk({}, 0.05), 0);
}

// Seed claim S3: success 0.9 where a span of 14 is whole in a block of 128, 0.7 at the 13 split phases.
// p = 13/128, mean 0.9 - 0.2 p = 0.8797, variance 0.04 p (1 - p) = 0.003650; PSI = 1 - sqrt(0.003650 / 0.10584) =
// 0.8143.
TEST(PositionStability, SplitSpansCostNineteenPercent) {
  std::vector<double> success(1280);
  for (std::size_t j = 0; j < success.size(); ++j) success[j] = j % 128 < 13 ? 0.7 : 0.9;
  const double share = 13.0 / 128;
  const double mean = 0.9 - 0.2 * share;
  EXPECT_NEAR(position_stability(success, 1), 1 - std::sqrt(0.04 * share * (1 - share) / (mean * (1 - mean))), 1e-12);
  EXPECT_NEAR(position_stability(success, 1), 0.814, 1e-3);
}

TEST(PositionStability, IsOneForUniformAndZeroForAllOrNothing) {
  EXPECT_NEAR(position_stability(std::vector<double>(50, 0.4), 1), 1, 1e-7);
  EXPECT_EQ(position_stability(std::vector<double>(50, 1.0), 1), 1);
  EXPECT_EQ(position_stability(std::vector<double>(50, 0.0), 1), 1);
  EXPECT_NEAR(position_stability(std::vector<double>{0, 1, 0, 1}, 1), 0, 1e-12);
  EXPECT_TRUE(std::isnan(position_stability({}, 1)));
}

// Two repeats of a fair coin at each of four positions, rates 0, 1/2, 1/2, 1: variance 1/8, chance [0, 1/4, 1/4, 0]
// mean 1/8, so all the spread is chance and the index is 1.
TEST(PositionStability, RepeatsTakeTheChanceOut) {
  const std::vector<double> rates = {0, 0.5, 0.5, 1};
  EXPECT_NEAR(position_stability(rates, 2), 1, 1e-12);
  EXPECT_NEAR(position_stability(rates, 1), 1 - std::sqrt(0.5), 1e-12);
}

// Blocks of 4, every other one lost, spans of 2: of the 15 spans over 16 positions the three that begin at 3, 7 and 11
// straddle a boundary.
TEST(SplitRate, SpansAcrossABoundaryBetweenKeptAndLost) {
  std::vector<double> loss;
  for (int j = 0; j < 16; ++j) loss.push_back(j / 4 % 2);
  EXPECT_DOUBLE_EQ(split_rate(loss, {}, 2), 3.0 / 15);
  EXPECT_EQ(split_rate(loss, {}, 1), 0);
  // Half lost counts as kept.
  EXPECT_EQ(split_rate(std::vector<double>{0.5, 0.5, 0.0}, {}, 2), 0);
  // A protected position ends a run: what is left between is uniform.
  std::vector<std::uint8_t> is_protected(16, 0);
  is_protected[3] = is_protected[7] = is_protected[11] = 1;
  EXPECT_EQ(split_rate(loss, is_protected, 2), 0);
}

}  // namespace
}  // namespace kvtide::loss

#include "loss/validation/scan_report.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvtide::loss {
namespace {

TEST(ScanReport, AreaIsTheShareOfPairsInOrder) {
  EXPECT_DOUBLE_EQ(area_under_curve({1, 2, 3}, {false, true, true}), 1.0);
  EXPECT_DOUBLE_EQ(area_under_curve({1, 2, 3}, {true, true, false}), 0.0);
  EXPECT_DOUBLE_EQ(area_under_curve({1, 2, 3}, {true, false, true}), 0.5);
  EXPECT_DOUBLE_EQ(area_under_curve({1, 1}, {true, false}), 0.5);  // a tie counts half
  EXPECT_TRUE(std::isnan(area_under_curve({1, 2}, {true, true})));
}

// Ranks 1 2 3 4 against 1 3 2 4: 1 - 6 * (1 + 1) / (4 * 15) = 0.8.
TEST(ScanReport, RankCorrelationIsSpearmans) {
  EXPECT_NEAR(rank_correlation({10, 20, 30, 40}, {1, 5, 3, 9}), 0.8, 1e-12);
  EXPECT_NEAR(rank_correlation({1, 2, 3}, {3, 2, 1}), -1.0, 1e-12);
  // Ranks 1 2 3 against 1.5 1.5 3: covariance 1.5, variances 2 and 1.5.
  EXPECT_NEAR(rank_correlation({1, 2, 3}, {7, 7, 9}), 1.5 / std::sqrt(3.0), 1e-12);
  EXPECT_TRUE(std::isnan(rank_correlation({1, 2}, {1, 2})));
  EXPECT_TRUE(std::isnan(rank_correlation({1, 2, 3}, {5, 5, 5})));
}

PredictedRow row(std::string policy, double measured, bool is_failing, double loss, double margin) {
  PredictedRow result;
  result.measured.setting.scan = "prefix";
  result.measured.setting.policy = std::move(policy);
  result.measured.loss = measured;
  result.measured.is_failing = is_failing;
  result.predicted = {{}, loss, margin};
  return result;
}

TEST(ScanReport, LossesAreCappedAtChanceAndSmallOnesDoNotRank) {
  // Above 0.2 nats: 1, 3 and 11 (capped to 9.2), in the predicted order; 0.1 and 0.2 would spoil it.
  const ScanReport report =
      report_scans({row("evict", 0.1, false, 5, 3), row("evict", 0.2, false, 4, 2), row("evict", 1, false, 1, 1),
                    row("evict", 3, true, 2, -1), row("evict", 11, true, 10, -2)});
  ASSERT_EQ(report.configurations.size(), 1U);
  const ConfigurationReport& only = report.configurations.front();
  EXPECT_EQ(only.rows, 5);
  EXPECT_EQ(only.failing, 2);
  EXPECT_EQ(only.between, 2);
  EXPECT_NEAR(only.rho, 1.0, 1e-12);
  EXPECT_DOUBLE_EQ(only.auc, 1.0);
  EXPECT_NEAR(only.mean_measured, (0.1 + 0.2 + 1 + 3 + 9.2) / 5, 1e-12);
  EXPECT_NEAR(only.mean_predicted, (5 + 4 + 1 + 2 + 9.2) / 5, 1e-12);
  EXPECT_DOUBLE_EQ(only.worst_predicted, 9.2);
}

// Blocks of 64. Fails at prefixes 61, 125 (phase 61) and 130 (phase 2); -1.2 and -1.1 are below -ln(9)/2 = -1.0986, -1.09 is
// not: predicted are phases 61 and 5.
TEST(ScanReport, FailingPhasesAreThoseOfAnyLength) {
  const auto at = [](std::int64_t prefix, bool is_failing, double margin) {
    PredictedRow one = row("evict", 1, is_failing, 1, margin);
    one.measured.setting.block = 64;
    one.measured.prompt = prefix;
    return one;
  };
  const ScanReport report = report_scans(
      {at(61, true, -1.09), at(125, true, -1.2), at(130, true, 2), at(69, false, -1.1), at(66, false, -1.09)});
  const FailingPhases& phases = report.configurations.front().phases;
  EXPECT_EQ(phases.both, std::vector<std::int64_t>{61});
  EXPECT_EQ(phases.only_measured, std::vector<std::int64_t>{2});
  EXPECT_EQ(phases.only_predicted, std::vector<std::int64_t>{5});
}

TEST(ScanReport, PooledAreaIsOverEvictionsOnly) {
  const ScanReport report =
      report_scans({row("evict", 5, true, 5, -1), row("evict", 0, false, 0, 1), row("int2", 5, true, 0, 9)});
  EXPECT_EQ(report.rows, 3);
  EXPECT_DOUBLE_EQ(report.pooled_auc, 1.0);
  EXPECT_EQ(report.configurations.size(), 2U);
}

// Trusted: estimates 4 and 1.5 against 4 and 2 right tokens: error 0.25; survivals 0.9 and 0.2 of exact and not: Brier
// (0.01 + 0.04) / 2. The third is not trusted, the fourth was not measured free-running.
TEST(ScanReport, SnowballsAreJudgedWhereTheyCanBeTrustedAndElsewhere) {
  std::vector<PredictedRow> rows{row("evict", 0, false, 0, 1), row("evict", 5, true, 5, -1),
                                 row("evict", 5, true, 5, -1), row("evict", 5, true, 5, -1)};
  const auto set = [&](std::size_t index, std::int64_t right, double expected, double survival, bool is_trusted) {
    rows[index].measured.right_tokens = right;
    rows[index].snowball.expected_right_tokens = expected;
    rows[index].snowball.survival = {survival};
    rows[index].snowball.is_trusted = is_trusted;
  };
  set(0, 4, 4, 0.9, true);
  set(1, 2, 1.5, 0.2, true);
  set(2, 0, 3, 0.8, false);
  const ScanReport report = report_scans(rows);
  EXPECT_EQ(report.trusted.rows, 2);
  EXPECT_NEAR(report.trusted.mean_measured, 3, 1e-12);
  EXPECT_NEAR(report.trusted.mean_estimated, 2.75, 1e-12);
  EXPECT_NEAR(report.trusted.mean_error, 0.25, 1e-12);
  EXPECT_NEAR(report.trusted.brier, 0.025, 1e-12);
  EXPECT_DOUBLE_EQ(report.trusted.auc, 1);
  EXPECT_EQ(report.untrusted.rows, 1);
  EXPECT_NEAR(report.untrusted.mean_error, 3, 1e-12);
}

}  // namespace
}  // namespace kvtide::loss

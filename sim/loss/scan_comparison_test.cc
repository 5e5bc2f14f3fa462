#include "loss/scan_comparison.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvtide::loss {
namespace {

OutsideScan scan_of(const std::vector<double>& success) {
  OutsideScan scan;
  scan.origin = "scan.csv";
  for (std::size_t i = 0; i < success.size(); ++i) {
    scan.points.push_back(
        {.at = 8.0 * static_cast<double>(i), .success = success[i], .loss = 1 - success[i], .repeats = 1});
  }
  scan.repeats = 1;
  return scan;
}

ScanComparison compare(const OutsideScan& before, const OutsideScan& after) {
  return compare_scans(before, diagnose(before), after, diagnose(after), 1);
}

// Ten of 40 places newly fail, none recovers: all flips one way has probability 2 * 2^-10 = 0.002.
TEST(CompareScans, ManyNewFailuresAreWorseAndTheReverseBetter) {
  std::vector<double> bad(40, 1.0);
  for (std::size_t i = 0; i < 40; i += 4) bad[i] = 0;
  const OutsideScan good = scan_of(std::vector<double>(40, 1.0));
  const ScanComparison worse = compare(good, scan_of(bad));
  EXPECT_EQ(worse.verdict, ScanChange::worse);
  EXPECT_EQ(worse.newly_failing, 10);
  EXPECT_EQ(worse.newly_right, 0);
  EXPECT_NEAR(worse.mean_loss_change, 0.25, 1e-12);
  EXPECT_EQ(worse.worst_loss_change, 1);
  EXPECT_NEAR(worse.p, 0.002, 0.0015);  // 10,000 flips at 0.00195: standard deviation 0.00044
  EXPECT_EQ(compare(scan_of(bad), good).verdict, ScanChange::better);
}

// Five one way: 2 * 2^-5 = 0.06, not sure.
TEST(CompareScans, AFewFlipsProveNothing) {
  std::vector<double> bad(40, 1.0);
  for (const std::size_t i : {1, 4, 15, 22, 37}) bad[i] = 0;  // at no period
  const ScanComparison change = compare(scan_of(std::vector<double>(40, 1.0)), scan_of(bad));
  EXPECT_EQ(change.verdict, ScanChange::same);
  EXPECT_NEAR(change.p, 0.0625, 0.01);
}

// `failing` of 40 places fall from 0.52 to 0.48, under one half: 0.04 each. Of the others six gain 0.4 and five lose it, none of
// them past one half. The sum of -0.4 + 0.04 failing lies within its standard deviation of 0.4 sqrt 11 = 1.3 under random signs;
// the flips alone tell, or do not: 2 * 2^-8 = 0.008, 2 * 2^-7 = 0.016.
TEST(CompareScans, PlacesThatNewlyFailTellWhereTheMeanDoesNot) {
  const auto verdict_of = [](std::size_t failing) {
    std::vector<double> before(40, 0.7);
    std::vector<double> after(40, 0.7);
    for (std::size_t i = 0; i < 11; ++i) {
      before[3 * i] = i % 2 == 0 ? 0.6 : 1.0;
      after[3 * i] = i % 2 == 0 ? 1.0 : 0.6;
    }
    for (std::size_t i = 0; i < failing; ++i) {
      before[3 * i + 1] = 0.52;
      after[3 * i + 1] = 0.48;
    }
    const ScanComparison change = compare(scan_of(before), scan_of(after));
    EXPECT_GT(change.p, 0.3);
    EXPECT_NEAR(change.mean_loss_change, (0.04 * static_cast<double>(failing) - 0.4) / 40, 1e-12);
    EXPECT_EQ(change.newly_failing, static_cast<std::int64_t>(failing));
    EXPECT_EQ(change.newly_right, 0);
    return change.verdict;
  };
  EXPECT_EQ(verdict_of(8), ScanChange::worse);
  EXPECT_EQ(verdict_of(7), ScanChange::same);
}

ScanComparison compare_text(const std::string& before, const std::string& after) {
  const auto table = [](const std::string& text) { return config::CsvTable::parse(text, "scan.csv"); };
  const auto [early, late] = read_scans_to_compare(table(before), table(after));
  return compare(early, late);
}

/// 40 places with one value each.
std::string even_scan(const std::string& columns, const std::string& value) {
  std::string text = columns + "\n";
  for (int place = 0; place < 40; ++place) text += std::to_string(8 * place) + "," + value + "\n";
  return text;
}

// 0.9 before, 0.55 after: 0.35 lost at each of 40 places, and all signs alike has probability 2 * 2^-40. The same of
// scores above 1: 90 and 45 are 1 and 0.5 of the best of both, 90 and 40 are 1 and 0.44, below one half.
TEST(CompareScans, ADropOfEveryScoreIsSeenWithoutABaseline) {
  const std::string before = even_scan("position,score", "0.9");
  const std::string after = even_scan("position,score", "0.55");
  const ScanComparison worse = compare_text(before, after);
  EXPECT_EQ(worse.verdict, ScanChange::worse);
  EXPECT_NEAR(worse.mean_loss_change, 0.35, 1e-12);
  EXPECT_NEAR(worse.p, 1e-4, 1e-12);  // none of 9,999 flips
  EXPECT_EQ(compare_text(after, before).verdict, ScanChange::better);
  EXPECT_EQ(compare_text(before, before).verdict, ScanChange::same);
  const ScanComparison half = compare_text(even_scan("position,score", "90"), even_scan("position,score", "45"));
  EXPECT_EQ(half.mean_loss_change, 45);
  EXPECT_EQ(half.newly_failing, 0);
  EXPECT_EQ(compare_text(even_scan("position,score", "90"), even_scan("position,score", "40")).newly_failing, 40);
}

// Before, 0.9 against a baseline of 1; after, the same 0.9 and no baseline: nothing changed. With baselines in both, each
// loses against its own: 0.1 and 0.05.
TEST(CompareScans, BaselinesCountWhereBothHaveThem) {
  const std::string with = even_scan("position,score,baseline", "0.9,1");
  EXPECT_EQ(compare_text(with, even_scan("position,score", "0.9")).mean_loss_change, 0);
  EXPECT_NEAR(compare_text(with, even_scan("position,score,baseline", "0.75,0.8")).mean_loss_change, -0.05, 1e-12);
}

TEST(CompareScans, EqualScansAreTheSame) {
  const OutsideScan scan = scan_of(std::vector<double>(20, 0.7));
  const ScanComparison change = compare(scan, scan);
  EXPECT_EQ(change.verdict, ScanChange::same);
  EXPECT_EQ(change.p, 1);
  EXPECT_EQ(change.mean_loss_change, 0);
}

TEST(CompareScans, AMovedPeriodIsNamedThoughTheMeanIsEqual) {
  std::vector<double> by_64(96, 1.0);
  std::vector<double> by_128(96, 1.0);
  for (std::size_t i = 0; i < 96; ++i) {
    by_64[i] = i % 8 == 0 ? 0 : 1;
    by_128[i] = i % 16 < 2 ? 0 : 1;
  }
  const ScanComparison change = compare(scan_of(by_64), scan_of(by_128));
  EXPECT_EQ(change.verdict, ScanChange::period_changed);
  EXPECT_EQ(change.period, PeriodChange::moved);
}

// Every eighth of 96 places wrong, period 64; after, 12 wrong at places without order: equal means, and no period left.
TEST(CompareScans, ACuredPeriodIsNamedThoughTheMeanIsEqual) {
  std::vector<double> periodic(96, 1.0);
  std::vector<double> scattered(96, 1.0);
  for (std::size_t i = 0; i < 96; i += 8) periodic[i] = 0;
  for (const std::size_t i : {1, 4, 15, 22, 26, 37, 43, 54, 60, 75, 81, 94}) scattered[i] = 0;
  const ScanComparison cured = compare(scan_of(periodic), scan_of(scattered));
  EXPECT_EQ(cured.verdict, ScanChange::period_changed);
  EXPECT_EQ(cured.period, PeriodChange::cured);
  EXPECT_EQ(compare(scan_of(scattered), scan_of(periodic)).period, PeriodChange::appeared);
  EXPECT_EQ(compare(scan_of(periodic), scan_of(std::vector<double>(96, 1.0))).period, PeriodChange::cured);
  EXPECT_EQ(compare(scan_of(periodic), scan_of(periodic)).period, PeriodChange::same);
  EXPECT_EQ(compare(scan_of(scattered), scan_of(scattered)).period, PeriodChange::none);
}

// 15 places of step 8 are 120 tokens, less than two cycles of 64: too short to say that the period is gone.
TEST(CompareScans, AShortScanCuresNothing) {
  std::vector<double> periodic(96, 1.0);
  for (std::size_t i = 0; i < 96; i += 8) periodic[i] = 0;
  EXPECT_EQ(compare(scan_of(periodic), scan_of(std::vector<double>(15, 1.0))).period, PeriodChange::unclear);
  EXPECT_EQ(compare(scan_of(periodic), scan_of(std::vector<double>(16, 1.0))).period, PeriodChange::cured);
}

TEST(CompareScans, NothingInCommonIsRefused) {
  OutsideScan shifted = scan_of(std::vector<double>(20, 1.0));
  for (ScanPoint& point : shifted.points) point.at += 1;
  EXPECT_THROW((void)compare(scan_of(std::vector<double>(20, 1.0)), shifted), InputError);
  OutsideScan other = scan_of(std::vector<double>(20, 1.0));
  other.axis = ScanAxis::prefix_chars;
  EXPECT_THROW((void)compare(scan_of(std::vector<double>(20, 1.0)), other), InputError);
}

}  // namespace
}  // namespace kvtide::loss

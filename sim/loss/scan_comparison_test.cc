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
  for (std::size_t i = 0; i < 20; i += 4) bad[i] = 0;
  const ScanComparison change = compare(scan_of(std::vector<double>(40, 1.0)), scan_of(bad));
  EXPECT_EQ(change.verdict, ScanChange::same);
  EXPECT_NEAR(change.p, 0.0625, 0.01);
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

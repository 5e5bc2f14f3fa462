#include "loss/danger_zone.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "loss/scan_mitigation.h"

namespace kvtide::loss {
namespace {

/// Success 0 at places whose residue is in [begin, end), else 1.
OutsideScan scan_of(double last, double step, double period, double begin, double end) {
  OutsideScan scan;
  scan.axis = ScanAxis::prefix_tokens;
  for (double at = 0; at <= last; at += step) {
    const double residue = std::fmod(at, period);
    const bool fails = begin < end ? residue >= begin && residue < end : residue >= begin || residue < end;
    scan.points.push_back({.at = at, .success = fails ? 0.0 : 1.0, .loss = fails ? 1.0 : 0.0, .repeats = 1});
  }
  scan.rows = static_cast<std::int64_t>(scan.points.size());
  scan.repeats = 1;
  return scan;
}

TEST(DangerZone, IntervalsAreOfResidues) {
  const DangerZone zone = danger_by_phase(scan_of(256, 2, 64, 4, 12), 64);
  ASSERT_EQ(zone.intervals.size(), 1U);
  EXPECT_EQ(zone.intervals[0].begin, 4);
  EXPECT_EQ(zone.intervals[0].end, 12);
  EXPECT_EQ(zone.share, 8.0 / 64);
  EXPECT_EQ(zone.worst_success, 0);
  EXPECT_EQ(zone.longest_safe().begin, 12);
  EXPECT_EQ(zone.longest_safe().end, 68);
}

TEST(DangerZone, IntervalMayWrap) {
  const DangerZone zone = danger_by_phase(scan_of(256, 2, 64, 60, 6), 64);
  ASSERT_EQ(zone.intervals.size(), 1U);
  EXPECT_EQ(zone.intervals[0].begin, 60);
  EXPECT_EQ(zone.intervals[0].end, 70);
  ASSERT_EQ(zone.avoid.size(), 1U);
  EXPECT_EQ(zone.avoid[0].begin, 60);
  EXPECT_EQ(zone.avoid[0].end, 70);
  const std::vector<Interval> parts = within_one_turn(zone.avoid[0], 64);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].end, 64);
  EXPECT_EQ(parts[1].begin, 0);
  EXPECT_EQ(parts[1].end, 6);
  EXPECT_EQ(within_one_turn({60, 64}, 64).size(), 1U);
}

TEST(DangerZone, NowhereAndEverywhereAreTheEnds) {
  const DangerZone nowhere = danger_by_phase(scan_of(256, 2, 64, 64, 65), 64);
  EXPECT_TRUE(nowhere.intervals.empty());
  EXPECT_EQ(nowhere.share, 0);
  EXPECT_EQ(nowhere.longest_safe().length(), 64);
  const DangerZone everywhere = danger_by_phase(scan_of(256, 2, 64, 0, 64), 64);
  EXPECT_EQ(everywhere.share, 1);
  EXPECT_EQ(everywhere.longest_safe().length(), 0);
}

// Places 5 apart, period 64: bins of 64 / 12 = 5.33. Residues 0 to 4 always fail; of 5.33 to 10.67 only 9 does (5, which is 0.33 short of
// it, counts to the first bin and answers, one of six there). 9 + 5 = 14.
TEST(DangerZone, PaddingLeavesTheLastFailureBehind) {
  OutsideScan scan = scan_of(995, 5, 64, 0, 5);
  for (ScanPoint& point : scan.points) {
    if (std::fmod(point.at, 64) == 9) point.success = 0;
  }
  const DangerZone zone = danger_by_phase(scan, 64);
  ASSERT_EQ(zone.intervals.size(), 1U);
  EXPECT_NEAR(zone.intervals[0].end, 64.0 / 12, 1e-9);
  ASSERT_EQ(zone.avoid.size(), 1U);
  EXPECT_EQ(zone.avoid[0].begin, 0);
  EXPECT_EQ(zone.avoid[0].end, 14);
  EXPECT_EQ(padding_out_of_danger(zone, 13), 1);
  EXPECT_EQ(padding_out_of_danger(zone, 14), 0);
  // A failure two bins away is another matter.
  for (ScanPoint& point : scan.points) {
    if (std::fmod(point.at, 64) == 9) point.success = 1;
    if (std::fmod(point.at, 64) == 11) point.success = 0;
  }
  EXPECT_EQ(danger_by_phase(scan, 64).avoid[0].end, 9);  // last failure at 4
}

TEST(DangerZone, FailingRunsArePlacesAsSeen) {
  const auto runs = failing_runs(scan_of(80, 2, 64, 4, 12));
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].first, 4);
  EXPECT_EQ(runs[0].last, 10);
  EXPECT_EQ(runs[1].first, 68);
}

// The worked example of the header: residues 4..11 take 8, 7, .. 1 tokens.
TEST(PaddingOutOfDanger, ReachesTheFirstSafeResidue) {
  const DangerZone zone = danger_by_phase(scan_of(256, 2, 64, 4, 12), 64);
  EXPECT_EQ(padding_out_of_danger(zone, 3), 0);
  EXPECT_EQ(padding_out_of_danger(zone, 4), 8);
  EXPECT_EQ(padding_out_of_danger(zone, 11), 1);
  EXPECT_EQ(padding_out_of_danger(zone, 12), 0);
  const DangerZone wrapped = danger_by_phase(scan_of(256, 2, 64, 60, 6), 64);
  EXPECT_EQ(padding_out_of_danger(wrapped, 62), 8);
  EXPECT_EQ(padding_out_of_danger(wrapped, 2), 4);
}

// Residues 60..63 and 0..5 fail: no residue is 69.
TEST(Mitigations, RulesNameResiduesOfOneTurn) {
  const OutsideScan scan = scan_of(400, 2, 64, 60, 6);
  const ScanDiagnosis diagnosis = diagnose(scan);
  ASSERT_EQ(diagnosis.period.search.period, 64);
  const auto found = mitigations_for(scan, diagnosis, {});
  ASSERT_FALSE(found.empty());
  EXPECT_THAT(found.front().action, ::testing::HasSubstr("mod 64: 60 to 63 and 0 to 5 -> at least 6"));
}

TEST(Mitigations, PricesAreThoseOfTheScan) {
  const OutsideScan scan = scan_of(400, 2, 64, 4, 12);
  const ScanDiagnosis diagnosis = diagnose(scan);
  ASSERT_TRUE(diagnosis.period.is_found());
  ASSERT_EQ(diagnosis.period.search.period, 64);
  const auto found = mitigations_for(scan, diagnosis, {.kv_bytes_per_token = 131072, .current = 6});
  const auto named = [&](const std::string& name) {
    for (const Mitigation& one : found) {
      if (one.name == name) return one;
    }
    ADD_FAILURE() << name;
    return Mitigation{};
  };
  const Mitigation needed = named("pad out of danger");
  EXPECT_NEAR(needed.mean_units, 36.0 / 64, 1e-12);
  EXPECT_EQ(needed.most_units, 8);
  EXPECT_NEAR(needed.mean_bytes, 36.0 / 64 * 131072, 1e-6);
  // Middle of [12, 68) is 40: 34 tokens from 6.
  const Mitigation fixed = named("pad to one length");
  EXPECT_THAT(fixed.action, ::testing::HasSubstr("by 34 tokens"));
  EXPECT_EQ(fixed.mean_units, 31.5);
  EXPECT_EQ(named("random offset").failing_after, 0.125);
  // Overlap 8 of 64: 1 / (1 - 1/8) - 1 = 14.3 % twice; once: (1/7) / 4 = 3.6 %.
  EXPECT_THAT(named("overlapping blocks").price,
              ::testing::AllOf(::testing::HasSubstr("14.3 %"), ::testing::HasSubstr("3.6 %")));
}

TEST(Mitigations, NoPeriodNoRemedy) {
  const OutsideScan scan = scan_of(400, 2, 64, 64, 65);
  EXPECT_TRUE(mitigations_for(scan, diagnose(scan)).empty());
}

}  // namespace
}  // namespace kvtide::loss

#include "loss/scan_period.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "loss/testing/autoregressive_noise.h"

namespace kvtide::loss {
namespace {

/// Loss `height` where (place - first) mod period is below `width`, else 0, plus noise.
ScanSeries comb(const std::vector<double>& places, double first, double period, double width, double noise,
                std::uint64_t seed = 1) {
  RandomStream random(seed, "test.comb");
  ScanSeries series;
  for (const double at : places) {
    const double residue = at - first - period * std::floor((at - first) / period);
    series.at.push_back(at);
    series.value.push_back((residue < width ? 10.0 : 0.0) + noise * random.normal());
  }
  return series;
}

std::vector<double> evenly(std::int64_t count, double step, double first = 0) {
  std::vector<double> places;
  for (std::int64_t i = 0; i < count; ++i) places.push_back(first + step * static_cast<double>(i));
  return places;
}

/// `count` distinct whole places in 0..extent-1.
std::vector<double> scattered(std::size_t count, std::uint64_t extent, std::uint64_t seed) {
  RandomStream random(seed, "test.scattered");
  std::vector<double> places;
  while (places.size() < count) {
    const auto at = static_cast<double>(random.below(extent));
    if (std::find(places.begin(), places.end(), at) == places.end()) places.push_back(at);
  }
  std::sort(places.begin(), places.end());
  return places;
}

// 101 places 0, 2, .. 200: extent 202, 202 / 64 = 3.16 cycles; half a step over the 2.16 cycles between first and last: 0.46.
TEST(ScanPeriod, ThreeCyclesOfACombAreFoundAtStepTwo) {
  const ScanPeriod found = search_scan_period(comb(evenly(101, 2), 4, 64, 8, 0.1), 1);
  EXPECT_EQ(found.period, 64);
  EXPECT_NEAR(found.cycles, 202.0 / 64, 1e-12);
  EXPECT_NEAR(found.resolution, 1 / (202.0 / 64 - 1), 1e-12);
  EXPECT_LE(found.p, 0.01);
  EXPECT_GT(found.agreement, 0.98);  // noise variance 0.01 beside a comb's 100 * 1/8 * 7/8 = 10.9
  EXPECT_EQ(found.shortest_searched, 8);
  EXPECT_LE(found.longest_searched, 101);
}

// Five periods that are no powers of two, the step no divisor of them.
TEST(ScanPeriod, AnyBlockSizeIsFoundWithinItsResolution) {
  for (const double period : {48.0, 80.0, 96.0, 100.0, 112.0}) {
    const ScanPeriod found = search_scan_period(comb(evenly(200, 3), 11, period, period / 6, 0.3), 1);
    EXPECT_NEAR(found.period, period, std::max(1.0, found.resolution)) << period;
    EXPECT_LE(found.p, 0.01) << period;
  }
}

TEST(ScanPeriod, UnevenPlacesAndYesOrNoAnswersWillDo) {
  ScanSeries series = comb(scattered(160, 640, 5), 0, 64, 16, 0, 2);
  for (double& value : series.value) value = value > 5 ? 1 : 0;
  const ScanPeriod found = search_scan_period(series, 1);
  EXPECT_NEAR(found.period, 64, 2);
  EXPECT_LE(found.p, 0.01);
}

TEST(ScanPeriod, CharactersWithFractionsKeepTheirScale) {
  // The same scan in another unit: 64 tokens of 3.7 characters.
  const ScanSeries tokens = comb(evenly(120, 2), 4, 64, 10, 0.1);
  ScanSeries characters = tokens;
  for (double& at : characters.at) at *= 3.7;
  const ScanPeriod found = search_scan_period(characters, 1);
  EXPECT_NEAR(found.period, 64 * 3.7, 0.02 * 64 * 3.7);
  EXPECT_LE(found.p, 0.01);
}

// A milder second dip of each two does not double the period: heights 10 and 1 in noise of 0.05.
TEST(ScanPeriod, EveryOtherDipMilderIsStillOnePeriod) {
  ScanSeries series = comb(evenly(200, 2), 0, 64, 8, 0.05);
  for (std::size_t i = 0; i < series.at.size(); ++i) {
    if (series.value[i] > 5 && std::fmod(series.at[i], 128) >= 64) series.value[i] -= 9;
  }
  EXPECT_EQ(search_scan_period(series, 1).period, 64);
}

// Two lone failures 11 of 18 places apart: nothing agrees at any multiple, and no period may leave what was searched.
TEST(ScanPeriod, TwoLoneFailuresStayWithinTheSearch) {
  ScanSeries series{evenly(18, 48), std::vector<double>(18, 0.0)};
  series.value[2] = series.value[13] = 1;
  const ScanPeriod found = search_scan_period(series, 1);
  EXPECT_LE(found.period, found.longest_searched);
  EXPECT_GE(found.cycles, 2);
}

// The other side: alternate blocks lost, as long as those kept (T1), have period 2B.
TEST(ScanPeriod, AlternateBlocksHavePeriodOfTwoBlocks) {
  EXPECT_EQ(search_scan_period(comb(evenly(256, 2), 0, 128, 64, 0.05), 1).period, 128);
}

TEST(ScanPeriod, KnownPeriodIsTheOnlyOneAsked) {
  const ScanSeries series = comb(evenly(101, 2), 4, 64, 8, 0.1);
  const ScanPeriod right = search_scan_period(series, 1, 64);
  EXPECT_EQ(right.period, 64);
  EXPECT_LE(right.p, 0.01);
  EXPECT_GT(search_scan_period(series, 1, 50).p, 0.05);
  EXPECT_TRUE(std::isnan(search_scan_period(series, 1, 102).period));  // fewer than two cycles in 202
}

TEST(ScanPeriod, TooFewOrEqualPointsHaveNone) {
  EXPECT_TRUE(std::isnan(search_scan_period(comb(evenly(kMinScanPoints - 1, 8), 0, 32, 8, 0), 1).period));
  EXPECT_FALSE(std::isnan(search_scan_period(comb(evenly(kMinScanPoints, 8), 0, 32, 8, 0), 1).period));
  EXPECT_TRUE(std::isnan(search_scan_period(comb(evenly(50, 8), 0, 32, 40, 0), 1).period));  // 10 everywhere
  EXPECT_TRUE(std::isnan(search_scan_period({}, 1).period));
}

TEST(ScanPeriod, LongScansAreThinned) {
  const ScanPeriod found = search_scan_period(comb(scattered(3000, 8000, 3), 0, 512, 100, 1), 1);
  EXPECT_NEAR(found.period, 512, 6);
  EXPECT_LE(found.p, 0.01);
}

// 15 runs each at 1 %: 0.15 expected, more than 2 has probability 0.04 %. kvtide bench statistics counts more.
TEST(ScanPeriod, NoiseRarelyHasOne) {
  for (const double rho : {0.0, 0.95, 0.99}) {
    int alarms = 0;
    for (std::uint64_t seed = 0; seed < 15; ++seed) {
      ScanSeries series{evenly(64, 8), autoregressive(64, rho, seed)};
      alarms += search_scan_period(series, seed).p <= 0.01 ? 1 : 0;
    }
    EXPECT_LE(alarms, 2) << rho;
  }
}

TEST(PhaseShareRatio, IsHighAtThePeriodAndNotBesideIt) {
  const ScanSeries series = comb(evenly(512, 2), 0, 64, 8, 0.5);
  EXPECT_GT(phase_share_ratio(series, 64), 5);
  EXPECT_LT(phase_share_ratio(series, 50), 5);
}

TEST(ScanSeries, StepIsTheMedianGap) {
  const ScanSeries series{{0, 1, 2, 3, 5, 7, 9, 11, 13}, std::vector<double>(9, 0.0)};  // gaps 1 1 1 2 2 2 2 2
  EXPECT_EQ(series.step(), 2);
  EXPECT_EQ(series.extent(), 15);
  EXPECT_EQ(ScanSeries{}.step(), 0);
}

}  // namespace
}  // namespace kvtide::loss

#include "loss/period_range.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace kvtide::loss {
namespace {

/// 10 where (place - first) mod period is below `width`, else 0.
ScanSeries dips(std::int64_t count, double step, double first, double period, double width) {
  ScanSeries series;
  for (std::int64_t i = 0; i < count; ++i) {
    const double at = step * static_cast<double>(i);
    const double turns = (at - first) / period;
    series.at.push_back(at);
    series.value.push_back((turns - std::floor(turns)) * period < width - 1e-9 ? 10 : 0);
  }
  return series;
}

// The header's example, places 0..164, the first dip from -1 to 6. By 33 one step down and one up. By 32 the places of a phase stand in the
// order of their cycles, those in a dip d, others n: ddnnnn, ddddnn, dddddd, ddddd, nnddd, nnnnd at phases 0, 2, .. 10, then n: ten steps
// round the cycle. By 34: ddddd twice, dddnn, dnnnn, at 28 nnnnd, nndd, dddd: six.
TEST(PeriodRange, TheRightPeriodLaysLikeBesideLike) {
  const ScanSeries series = dips(83, 2, 32, 33, 8);
  EXPECT_EQ(phase_roughness(series, series.value, 33), 200);
  EXPECT_EQ(phase_roughness(series, series.value, 32), 1000);
  EXPECT_EQ(phase_roughness(series, series.value, 34), 600);
  for (const double near : {32.0, 33.0, 34.0}) {
    const PeriodRange range = period_range(series, series.value, near, 1);
    EXPECT_EQ(range.period, 33) << near;
    EXPECT_EQ(range.low, 33) << near;
    EXPECT_EQ(range.high, 33) << near;
  }
}

// Eight cycles of 128 at step 8: over the seven between first and last a period that is off by 1 drifts by 7, less than a step, and parts no
// dip; one that is off by 2 drifts by 14.
TEST(PeriodRange, WhatTheSamplingCannotTellApartIsARange) {
  const ScanSeries series = dips(128, 8, 32, 128, 32);
  const PeriodRange range = period_range(series, series.value, 129, 1);
  EXPECT_EQ(range.period, 128);
  EXPECT_EQ(range.low, 127);
  EXPECT_EQ(range.high, 129);
}

// A quarter of the scan is the most that is tried, and two cycles are to be seen.
TEST(PeriodRange, TwoCyclesStay) {
  const ScanSeries series = dips(16, 8, 0, 64, 16);
  EXPECT_LE(period_range(series, series.value, 64, 1).high, 64);
}

}  // namespace
}  // namespace kvtide::loss

#pragma once
// Which periods near one that was found fit a scan as well, by the order that they put its places in: the right one lays like beside
// like (the string length of Lafler and Kinman, Astrophysical Journal Supplement 11, 1965, 216). Folds in bins and points one period apart
// judge whether there is a period; this uses all cycles at once, so it tells neighbours apart that those do not.
//
// Example: dips of 10 at -1..6, 32..39, 65..72, 98..105 and 131..138, places 0, 2, .. 164. Turned by 33 the dips lie on each other: one
// step down and one up, sum of squares 200. Turned by 32 some places at four phases are in a dip and some are not: 1,000.

#include "loss/scan_period.h"

namespace kvtide::loss {

struct PeriodRange {
  double period = 0;  ///< a power of two where one fits, since most block sizes are; else the middle
  double low = 0;     ///< shortest and longest that fit as well
  double high = 0;
};

/// Sum of squared differences of neighbours in phase, round the cycle.
/// @param value  one a place of the series
[[nodiscard]] double phase_roughness(const ScanSeries& series, std::span<const double> value, double period);

/// @param near  to be refined: within a step, or a drift of a quarter of a cycle over the scan
/// @param grain  distance of the periods tried
[[nodiscard]] PeriodRange period_range(const ScanSeries& series, std::span<const double> value, double near,
                                       double grain);

}  // namespace kvtide::loss

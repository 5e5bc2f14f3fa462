#pragma once
// Has an outside scan a period? For few points (tens to hundreds), at any distances, repeated or binary, of a live system:
// fold_index.h and edge_grid.h want an unbroken profile of many cycles, this does with two cycles and holes.
//
// Two statistics at every candidate period P: the share of variance that the phase explains (8 bins), and the agreement of points P
// apart, 1 - MSD / (2 variance). Two scales: the values, and asinh((y - median) / (2 robust sigma)), on which a bump of 0.4 nat counts
// beside one of 10. Two families: powers of two, since most block sizes are, and every period.
// How good is good is learnt from surrogates, each searched alike: AR(1) series with the scan's own autocorrelation and
// innovations at the same positions, and the scan's own failing stretches in another order (scan_surrogates.h). Within each
// kind the smallest p of the eight searches is ranked among the surrogates' smallest (Westfall and Young 1993), so the
// search is paid for; the larger p of the two kinds counts.
//
// Example: loss 10 at prefix lengths 4..10, 68..74, 132..138 and 0 elsewhere, measured at 0, 2, .. 200: the agreement at 64 is 1, no
// surrogate reaches it: p = 1/1000, 3.2 cycles, period 64.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace kvtide::loss {

struct ScanSeries {
  std::vector<double> at;     ///< ascending, distinct; tokens or characters
  std::vector<double> value;  ///< one each
  /// Usual distance of neighbours (their median); 0 below two points.
  [[nodiscard]] double step() const;
  /// Last - first + step.
  [[nodiscard]] double extent() const;
};

struct ScanPeriod {
  /// The best candidate, whether or not it convinces; NaN: none to try.
  double period = std::numeric_limits<double>::quiet_NaN();
  /// To the farthest period that fits as well (period_range.h); at least half the mean gap that a boundary falls into, over the cycles
  /// between first and last.
  double resolution = 0;
  double cycles = 0;       ///< extent / period
  double phase_share = 0;  ///< of variance explained by the phase, at the period
  double agreement = 0;    ///< of points one period apart; 1: equal
  double p = 1;            ///< after the whole search; resolution 1 / (surrogates + 1)
  std::int64_t surrogates = 0;
  double shortest_searched = 0;  ///< four points a cycle
  double longest_searched = 0;   ///< two cycles
};

/// Fewer points say nothing.
inline constexpr std::size_t kMinScanPoints = 12;
/// Longer series are thinned to this many points by averaging neighbours.
inline constexpr std::size_t kMaxScanPoints = 512;

/// @param known_period  > 0: only this one is tried
/// @return p 1 and period NaN below kMinScanPoints, for a constant series, or where no candidate fits
[[nodiscard]] ScanPeriod search_scan_period(const ScanSeries& series, std::uint64_t seed, double known_period = 0);

/// Variance explained by the phase at `period` over its median at periods in [P / 1.5, 1.5 P] further than 2 P / cycles away: neighbours
/// share the colour of the noise. 0 without any.
[[nodiscard]] double phase_share_ratio(const ScanSeries& series, double period);

}  // namespace kvtide::loss

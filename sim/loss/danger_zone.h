#pragma once
// At which places does an outside scan fail? With a period, as intervals of the residue `place mod period`; and always as the runs of
// places that were seen to fail.
//
// Example: period 64, success 0 at residues 4, 6, 8, 10 and 1 elsewhere, measured every 2: one interval [4, 12), 8 of 64, so one place
// in eight fails.

#include <cstdint>
#include <vector>

#include "loss/outside_scan.h"

namespace kvtide::loss {

/// A place fails when its success is below this.
inline constexpr double kFails = 0.5;

struct Interval {
  double begin = 0;
  double end = 0;  ///< not included; may exceed the period where the interval wraps (begin < period)
  [[nodiscard]] double length() const { return end - begin; }
};

/// The same residues with none beyond the period: two parts where the interval wraps. Example: [112, 176) mod 128: [112, 128), [0, 48).
[[nodiscard]] std::vector<Interval> within_one_turn(const Interval& interval, double period);

struct DangerZone {
  double period = 0;
  double bin_width = 0;
  std::vector<double> mean_success;  ///< [bin] from residue 0; NaN where nothing was measured
  std::vector<double> mean_loss;     ///< [bin]
  /// Of residues, ascending; a bin without a point belongs to what lies on both its sides.
  std::vector<Interval> intervals;
  double share = 0;          ///< of the period
  double worst_success = 1;  ///< over bins
  double worst_loss = 0;     ///< over bins

  /// What padding must leave, in whole units: the intervals, and failing places in the bins beside them, to a step beyond the last one
  /// (bins are coarse, and how far a dip goes on between two places is not known). Example: places 5 apart, danger [0, 5.33), one more
  /// failing place at residue 9: [0, 14). Ascending, apart; one of the whole period where nothing is safe.
  std::vector<Interval> avoid;

  /// The longest stretch of residues not to be avoided; length 0 when all of it is, the period when none is.
  [[nodiscard]] Interval longest_safe() const;
};

/// @param period  > 0; bins as wide as the scan's step, at most 64
[[nodiscard]] DangerZone danger_by_phase(const OutsideScan& scan, double period);

/// Runs of neighbouring places that fail, first and last place (equal for a lone one).
struct FailingRun {
  double first = 0;
  double last = 0;
};
[[nodiscard]] std::vector<FailingRun> failing_runs(const OutsideScan& scan);

}  // namespace kvtide::loss

#pragma once
// The few constants of a user's own server that no data sheet has (serving/calibrated_step_time.h), fitted to its own benchmark runs.
//
// Every second run is fitted, the others are held out. Step time is fitted to TPOT alone, the offset then to TTFT: TPOT does not hang on
// it. A TTFT that is queueing for the most part has no offset to tell: a queue is many steps long, and so is each error of a
// step. Example: steps of 10 ms measured as 11.5 and of 20 ms as 22.5: factor 1.1, gap 0.5 ms.

#include <cstdint>
#include <functional>
#include <vector>

#include "planning/benchmark_log.h"
#include "serving/calibrated_step_time.h"

namespace kvtide::planning {

using serving::CalibratedStepTime;
using serving::Calibration;

struct PredictedRun {
  double ttft = 0, tpot = 0;  ///< means, s
  double queueing = 0;        ///< mean, s: the part of ttft before a request's first step
};
/// What a run would have measured.
using PredictRun = std::function<PredictedRun(const MeasuredRun&, const Calibration&)>;

/// Root mean square of ln(predicted / measured). NaN where there are no runs.
struct CalibrationError {
  double ttft = 0, tpot = 0;
};

struct CalibrationOutcome {
  Calibration fitted;
  CalibrationError before, after;                    ///< of the fitted runs
  CalibrationError held_out_before, held_out_after;  ///< NaN of fewer than two runs
  std::size_t num_fitted = 0, num_held_out = 0;
  std::size_t num_offsets = 0;  ///< fitted runs whose TTFT told ttft_offset; 0: it stays 0
  std::vector<PredictedRun> predicted_before, predicted_after;  ///< [run]

  /// Whether held-out runs are predicted worse with the constants than without: TPOT, to which steps are fitted, or the squares of both
  /// errors together, by more than 0.01; what was not measured is left out. Example: TPOT 5 % -> 2 %, TTFT 34 % -> 67 %: worse.
  [[nodiscard]] bool is_worse() const;
};

/// The cost is bounded by the runs alone: with more than two, each fitted one is predicted 9 * 11 + 11 times for gap and factor and 3
/// times more, each one held out twice. A prediction replays every request of its run.
/// @param runs  at least one
[[nodiscard]] CalibrationOutcome calibrate(const std::vector<MeasuredRun>& runs, const PredictRun& predict);

}  // namespace kvtide::planning

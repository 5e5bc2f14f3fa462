#pragma once
// The information half of a run: the setting applied to the trace, measured at every position against the full cache.

#include "experiment/experiment.h"
#include "experiment/result.h"
#include "experiment/trace_inputs.h"
#include "loss/span_statistics.h"

namespace kvtide::experiment {

/// Scores the setting's eviction needs; without eviction an empty record of the trace's shape.
[[nodiscard]] std::shared_ptr<const kv::RecordedScores> scores_for(const kv::Compression& setting,
                                                                   const kv::LayerBudget& budget,
                                                                   const TraceInputs& trace);

/// The chosen metric by position, and what it comes to.
struct MeasuredLoss {
  std::vector<double> profile;  ///< [position]
  loss::SpanStatistics spans;
};

/// @param setting  resolved on the trace, wherever its grid lies
[[nodiscard]] MeasuredLoss measured_loss(const Run& run, const kv::Compression& setting, const TraceInputs& trace);

/// Adds loss columns, profiles, phase fold, position scan and prefix scan to `result`, as far as the run measures them.
void evaluate_loss(const Run& run, const TraceInputs& trace, RunResult& result);

}  // namespace kvtide::experiment

#pragma once
// The prefix scan of a run: how its loss changes while tokens are put in front of the text, over four blocks.

#include "experiment/experiment.h"
#include "experiment/result.h"
#include "experiment/trace_inputs.h"

namespace kvtide::experiment {

/// Adds /prefix arrays and the prefix_* columns. @param setting  the run's compression, resolved on the trace
void evaluate_prefix_scan(const Run& run, const kv::Compression& setting, const TraceInputs& trace, RunResult& result);

}  // namespace kvtide::experiment

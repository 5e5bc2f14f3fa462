#pragma once
// The position scan of a run with a planted probe.

#include "experiment/experiment.h"
#include "experiment/result.h"
#include "experiment/trace_inputs.h"

namespace kvtide::experiment {

/// Adds /scan arrays and the probe_* columns. Needs a setting that only evicts; attention_sum sees the probe, other
/// scorers see the token it stands on.
/// @param setting  the run's compression, resolved on the trace
/// @throws InputError  a stage that does more than evict, or a probe that does not fit
void evaluate_probe_scan(const Run& run, const kv::Compression& setting, const TraceInputs& trace, RunResult& result);

}  // namespace kvtide::experiment

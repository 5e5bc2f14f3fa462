#pragma once
// A run's compression with everything that waits for the run or the trace filled in: the drawn grid offset, the places
// of anchors and block boundaries in the text.

#include "experiment/experiment.h"
#include "experiment/trace_inputs.h"

namespace kvtide::experiment {

/// @throws InputError  when the trace has no token strings (or probes) for what the setting asks
[[nodiscard]] kv::Compression resolved_compression(const Run& run, const TraceInputs& trace);

}  // namespace kvtide::experiment

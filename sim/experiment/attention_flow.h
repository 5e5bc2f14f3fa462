#pragma once
// Where a run's attention goes when it cannot land, and what that may do to the answer token by token.

#include <vector>

#include "experiment/experiment.h"
#include "experiment/result.h"
#include "experiment/trace_inputs.h"
#include "kv/head_cache.h"

namespace kvtide::experiment {

/// Adds /redistribution arrays by layer, and /generation arrays where the trace asks for one of its probes.
/// @param caches  [layer] with entries, as the loss was measured on
void add_attention_flow(const kv::Compression& setting, const TraceInputs& trace,
                        const std::vector<kv::LayerCache>& caches, RunResult& result);

}  // namespace kvtide::experiment

#pragma once
// The loss of layers that are stored as one (MiniCache): a trace tells it where it has recorded a layer's neighbours.

#include <string>
#include <vector>

#include "experiment/trace_inputs.h"

namespace kvtide::experiment {

/// Why the loss of shared layers cannot be measured on a trace, as a sentence; empty: it can be, or nothing is shared.
/// Models that share one cache are trained so and the recorded one is not. Merged layers need every layer of their group recorded.
/// Example: layers 9 and 18 of 30, merged in twos from 15 on: 18 wants 19 -> "... layer 18 is merged with 19, which ...".
[[nodiscard]] std::string unmeasurable_reason(const kv::LayerSharing& sharing, const attention::TraceInfo& trace);

/// [recorded layer] the trace's tensors as merged layers are read back; empty where nothing is merged.
/// unmeasurable_reason() must be empty.
[[nodiscard]] std::vector<kv::LayerTensors> merged_trace(const kv::LayerSharing& sharing, const TraceInputs& trace);

}  // namespace kvtide::experiment

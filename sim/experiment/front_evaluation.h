#pragma once
// The loss that a workload's fronts cause: what each length of text in front, as often as the traffic has it, does to the positions of
// the request's own text, without padding and with it.
//
// Example: blocks of 128, half of the requests behind 130 tokens, the others behind none. Without padding half of the traffic sees the
// grid moved by 2: the expected change is half of PS(2). Padded to 256 nobody does, for 63 more tokens a request on average.

#include "experiment/experiment.h"
#include "experiment/result.h"
#include "experiment/trace_inputs.h"

namespace kvtide::experiment {

/// Adds the front_ columns and /front arrays; nothing without `workload.front`. At most 24 lengths are measured, the most frequent
/// ones; the others count as the nearest of these in the grid.
/// @param setting  the run's compression, resolved  @pre run.setting.serving has a value
void evaluate_fronts(const Run& run, const kv::Compression& setting, const TraceInputs& trace, RunResult& result);

}  // namespace kvtide::experiment

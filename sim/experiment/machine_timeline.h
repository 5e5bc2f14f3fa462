#pragma once
// The decode steps of a run as a timeline for a trace viewer: one process a pipeline stage, one thread a stream.

#include <ostream>

#include "experiment/experiment.h"
#include "gpu/gpu.h"
#include "kv/served_cache.h"
#include "model/model.h"

namespace kvtide::experiment {

/// Streams every kernel of the steps that a run simulates, up to gpu::ChromeTrace::kMaxEvents; what is left out is counted
/// in the file. Kernels carry their slack and step; critical ones have the category "critical".
void write_machine_timeline(const Run& run, const kv::Compression& setting, const Model& model, gpu::Gpu& gpu,
                            const kv::RecordedScores& scores, std::ostream& out);

}  // namespace kvtide::experiment

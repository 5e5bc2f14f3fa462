#pragma once
// The serving half of a run: the workload through an engine whose cache the setting compresses.
//
// Bytes and held tokens are those of the same compressed cache that the machine and the loss meter read: at the workload's mean context
// the setting keeps some entries and stores each in some bytes; blocks shrink with the second, their number with the first.

#include "experiment/experiment.h"
#include "experiment/result.h"
#include "gpu/gpu.h"
#include "kv/served_cache.h"
#include "model/model.h"

namespace kvtide::experiment {

/// Reads the workload's file, where it has one. @throws InputError  it cannot be read, or `refuse` meets requests that are too long
void check_requests(const ServingSetting& setting, const Model& model);

/// Adds the serving columns and /serving arrays. @pre run.setting.serving has a value
/// @param setting  the run's compression, resolved
/// @throws InputError  the model does not fit, requests that are too long, a trace that cannot be read
void evaluate_serving(const Run& run, const kv::Compression& setting, const Model& model, gpu::Gpu& gpu,
                      const kv::RecordedScores& scores, RunResult& result);

/// Loss that a fact of the prompt expects, by where prompts put their facts: anywhere alike, mostly at the start or at the end (weights
/// fall or rise linearly), or where attention went on the trace (loss_mean). Needs the loss profile; else adds nothing.
void add_expected_loss(RunResult& result);

}  // namespace kvtide::experiment

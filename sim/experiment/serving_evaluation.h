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

/// Reads the workload's file, or draws its requests. @pre run.setting.serving has a value
/// @throws InputError  the file cannot be read, or `refuse` meets requests that are too long
void check_requests(const Run& run, const Model& model);

/// Adds the serving columns and /serving arrays. @pre run.setting.serving has a value
/// @param setting  the run's compression, resolved
/// @throws InputError  the model does not fit, requests that are too long, a trace that cannot be read
void evaluate_serving(const Run& run, const kv::Compression& setting, const Model& model, gpu::Gpu& gpu,
                      const kv::RecordedScores& scores, RunResult& result);

/// How much weight each of `num_positions` positions has by a CSV of `place` (0: the prompt's first token, 1: its end) and, where there
/// is one, `weight`. Example: 4 positions, places 0.1, 0.3, 0.3, 1: weights 1, 2, 0, 1.
/// @throws InputError  the file cannot be read or has no weight above 0
[[nodiscard]] std::vector<double> load_fact_places(const std::string& path, std::size_t num_positions);

/// Loss that a fact of the prompt expects, by where prompts put their facts: anywhere alike, mostly at the start or at the end (weights
/// fall or rise linearly), or where `facts` of the workload says. Needs the loss profile; else adds nothing.
/// @throws InputError  as load_fact_places()
void add_expected_loss(const ServingSetting& asked, RunResult& result);

}  // namespace kvtide::experiment

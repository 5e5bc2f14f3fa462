#pragma once
// For tests: an experiment that reads nothing from disk, and an evaluation that is a pure function of the run.

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "base/random.h"
#include "experiment/experiment.h"
#include "experiment/result.h"

namespace kvtide::experiment {

inline std::string bytes_of(const std::filesystem::path& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

/// `num_runs` runs with distinct keys along one axis; nothing is read from disk.
inline Experiment experiment_of(std::int64_t num_runs, std::uint64_t salt = 0) {
  Experiment experiment;
  experiment.name = "fake";
  experiment.yaml = "name: fake\n";
  experiment.axes.push_back({"batch", AxisType::integer, {}});
  experiment.key = mix64(salt);
  for (std::int64_t index = 0; index < num_runs; ++index) {
    experiment.axes[0].labels.push_back(std::to_string(index * 10));
    experiment::Run run;
    run.index = index;
    run.axis_values.assign(1, index);
    run.key = mix64(static_cast<std::uint64_t>(index) + 1000 * salt);
    run.seed = mix64(run.key);
    experiment.runs.push_back(std::move(run));
  }
  experiment.num_runs = num_runs;
  return experiment;
}

/// A pure function of the run that takes longest for the first runs, so that workers finish out of order.
inline RunResult fake_evaluate(const experiment::Run& run) {
  std::this_thread::sleep_for(std::chrono::milliseconds((7 - run.index % 8) * 2));
  RandomStream random(run.seed, "fake");
  RunResult result;
  result.numbers["kv_bytes"] = static_cast<double>(1000 + run.index);
  result.texts["period_kind"] = "none";
  result.loss_model = "tiny";
  result.loss_tokens = 100;
  result.dimensions.push_back({"loss/position", std::vector<std::int64_t>{0, 1, 2}, "position", "token"});
  result.dimensions.push_back({"phase/phase", std::vector<double>{0.5, 1.5}, "phase", "token"});
  result.arrays.push_back({"loss/mass_loss",
                           std::vector<float>{0.5F, static_cast<float>(random.uniform()), 0},
                           {"loss/position"},
                           "L",
                           "1"});
  result.arrays.push_back(
      {"phase/loss", std::vector<double>{random.uniform(), std::nan("")}, {"phase/phase"}, "folded", "1"});
  result.arrays.push_back({"phase/count", std::vector<std::int64_t>{1, 2}, {"phase/phase"}, "n", "1"});
  result.arrays.push_back({"kept", std::vector<std::uint8_t>{1}, {}, "kept", "1"});
  return result;
}

}  // namespace kvtide::experiment

#pragma once
// Measured serving runs replayed: a folder laid out like the e2e data (runs.csv, <run>.requests.csv, profiles/).

#include <cstdint>
#include <string>
#include <vector>

#include "serving/serving_run.h"

namespace kvtide::serving {

struct ReplayFigure {
  std::string run;
  std::string metric;     ///< "ttft_ms", "tpot_ms", "latency_ms"
  std::string statistic;  ///< "mean", "p50", "p90", "p95", "p99"
  double measured = 0, predicted = 0;
  [[nodiscard]] double error_percent() const { return 100 * (predicted / measured - 1); }
};

struct ReplayedRun {
  std::string run;
  std::string gpu;                    ///< profile; machine step times only
  std::vector<ReplayFigure> figures;  ///< of tpot_ms only where a request has two output tokens
  ServingOutcome outcome;
  double measured_makespan = 0;  ///< s
};

enum class StepTimes : std::uint8_t {
  machine,  ///< of the modeled GPU, whose profile the run's GPU or device name leads to
  tables,   ///< of the run's own kernel profile
};
[[nodiscard]] std::string to_string(StepTimes value);

struct ReplayOptions {
  StepTimes step_times = StepTimes::machine;
  /// Between the ranks, a name of hw_profiles/interconnects. Empty: the GPU's own where it is a switch or a mesh; over PCIe
  /// `pcie-staged`, because measured runs do not say whether their GPUs reach each other's memory and most boards cannot.
  std::string interconnect{};
};

/// Replays every run of runs.csv from the times its requests joined the queue. The number of blocks is the run's where it is stated,
/// else that of the memory account. What was measured is read after the replay.
/// @throws InputError
[[nodiscard]] std::vector<ReplayedRun> replay(const std::string& folder, const ReplayOptions& options);

}  // namespace kvtide::serving

#pragma once
// Spreads an experiment's runs over worker threads. One thread (the caller's) writes; results do not depend on the
// number of workers or on who finished first, because every run is a pure function and the final file is assembled in
// run order.
//
// On disk while running: NAME.runs/experiment.key and NAME.runs/<index>.h5, each complete or absent. At the end NAME
// itself, and the folder is removed. A kill at any moment loses only the runs in flight; --resume computes what is
// missing and what failed, and takes the rest from the folder or from NAME.

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "experiment/result.h"
#include "experiment/result_writer.h"

namespace kvtide::experiment {

/// Evaluates one run; called from several threads at once. What runs share (traces, attention references, GPUs) is
/// captured by the callable and is immutable or locked. A thrown Error, Infeasible or std::exception becomes a failed
/// row.
using Evaluate = std::function<RunResult(const Run&)>;

struct Progress {
  std::int64_t done = 0;  ///< of total, resumed ones included
  std::int64_t total = 0;
  std::int64_t failed = 0;
  double elapsed_seconds = 0;               ///< wall time; for the display only
  std::optional<double> remaining_seconds;  ///< none until a run has finished
};

struct ExecutorOptions {
  std::string output;     ///< NAME, the final file
  std::int64_t jobs = 1;  ///< worker threads, >= 1
  bool resume = false;
  const std::atomic<bool>* interrupted = nullptr;    ///< set by a signal handler: no further run is handed out
  std::function<void(const Progress&)> on_progress;  ///< from the caller's thread, at the start and after every run
  Provenance provenance;
};

struct Outcome {
  std::int64_t done = 0;
  std::int64_t failed = 0;
  std::int64_t resumed = 0;  ///< of done: found complete on disk
  bool is_interrupted = false;
  std::vector<std::string> failures;  ///< "00003: reason", in run order
};

/// The run's result; whatever it throws, or a malformed result, becomes a failed row.
[[nodiscard]] RunResult evaluate_safely(const Evaluate& evaluate, const Run& run);

/// Runs everything and writes the final file, unless interrupted (then the finished runs stay in NAME.runs/).
/// Resumed are finished runs of the same build of kvtide; those of another are computed again. A finished file gets the
/// names, labels and YAML of `experiment`, whatever it was written under.
/// @throws EnvironmentError  unwritable output, full disk: before any run where that can be known
/// @throws InputError        --resume with another configuration's NAME or NAME.runs/
[[nodiscard]] Outcome execute(const Experiment& experiment, const Evaluate& evaluate, const ExecutorOptions& options);

}  // namespace kvtide::experiment

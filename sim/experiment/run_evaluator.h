#pragma once
// Evaluates runs: both observers on the same setting. Traces, scores, attention references and GPUs are made once and
// shared.

#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>

#include "experiment/experiment.h"
#include "experiment/result.h"
#include "experiment/trace_inputs.h"
#include "gpu/gpu.h"
#include "model/model.h"

namespace kvtide::experiment {

class RunEvaluator {
 public:
  /// Reads every recorded trace of the experiment, so that a damaged one ends the call before any run.
  /// @throws InputError
  void prepare(const Experiment& experiment);

  /// A pure function of the run; safe to call from several threads.
  /// @throws InputError when the run's model, GPU or trace cannot be used
  [[nodiscard]] RunResult evaluate(const Run& run);

  /// The kernels of the run's decode steps as Chrome trace JSON. @throws InputError as evaluate
  void write_timeline(const Run& run, std::ostream& out);

 private:
  template <typename T>
  using Shared = std::shared_future<std::shared_ptr<T>>;

  std::shared_ptr<const TraceInputs> trace(const Setting& setting);
  std::shared_ptr<const Model> model(const std::string& name);
  std::shared_ptr<gpu::Gpu> gpu(const Setting& setting);

  std::mutex mutex_;
  std::map<std::string, Shared<const TraceInputs>> traces_;
  std::deque<std::string> trace_order_;  ///< oldest first; only kTracesKept stay
  std::map<std::string, Shared<const Model>> models_;
  std::map<std::string, Shared<gpu::Gpu>> gpus_;
};

}  // namespace kvtide::experiment

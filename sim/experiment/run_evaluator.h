#pragma once
// Evaluates runs: both observers on the same setting. Traces, scores, attention references and GPUs are made once and
// shared.

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "experiment/experiment.h"
#include "experiment/result.h"
#include "experiment/trace_inputs.h"
#include "gpu/gpu.h"
#include "model/model.h"

namespace kvtide::experiment {

class RunEvaluator {
 public:
  /// A pure function of the run; safe to call from several threads.
  /// @throws InputError when the run's model, GPU or trace cannot be used
  [[nodiscard]] RunResult evaluate(const Run& run);

 private:
  std::shared_ptr<const TraceInputs> trace(const Setting& setting);
  std::shared_ptr<const Model> model(const std::string& name);
  std::shared_ptr<gpu::Gpu> gpu(const std::string& name);

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const TraceInputs>> traces_;
  std::map<std::string, std::shared_ptr<const Model>> models_;
  std::map<std::string, std::shared_ptr<gpu::Gpu>> gpus_;
};

}  // namespace kvtide::experiment

#pragma once
// What a policy of the plan does: to the bytes of a sequence, and to what attention sees of the trace. Measured once, whatever GPUs
// and batch limits the policy is combined with.

#include <memory>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "experiment/served_engine.h"
#include "experiment/trace_inputs.h"
#include "gpu/gpu_profile.h"
#include "planning/plan.h"
#include "planning/traffic.h"

namespace kvtide::planning {

struct Policy {
  std::string label;
  experiment::Run run;      ///< on the plan's first GPU, one rank
  kv::Compression setting;  ///< resolved on the trace
  std::shared_ptr<const kv::RecordedScores> scores;
  experiment::CompressedShare share;  ///< at the workload's mean context, on one rank
  serving::CacheGrowth growth;
  std::int64_t context = 16;  ///< that mean, tokens
  double loss_mean = 0, loss_worst = 0;
  double period = 0;                 ///< tokens; NaN: none found
  std::vector<double> loss_profile;  ///< [position] of the trace
  std::string loss_model;
  std::int64_t loss_tokens = 0;
  std::string refusal;  ///< not empty: over the plan's loss bound

  [[nodiscard]] bool loses_nothing() const { return setting.stages.empty(); }
};

/// The plan's shared sections with one policy, on one GPU type and number of ranks. Paths of model, GPU and trace are resolved in its
/// setting. @param gpu  name of one of the plan's  @throws InputError
[[nodiscard]] experiment::Run run_of(const Plan& plan, const PolicyChoice& choice, const std::string& gpu,
                                     std::int64_t tensor_parallel);

/// What that GPU type is. @param gpu  name of one of the plan's  @throws InputError
[[nodiscard]] gpu::GpuProfile profile_of(const Plan& plan, const std::string& gpu);

/// @throws InputError  when the policy cannot be applied to the trace
[[nodiscard]] Policy measure_policy(const Plan& plan, const PolicyChoice& choice, const Traffic& traffic,
                                    const Model& model, const experiment::TraceInputs& trace);

}  // namespace kvtide::planning

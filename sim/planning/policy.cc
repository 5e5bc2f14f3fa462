#include "planning/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/quoted_text.h"
#include "experiment/loss_evaluation.h"
#include "experiment/resolved_compression.h"
#include "experiment/result.h"
#include "experiment/schedule_reader.h"

namespace kvtide::planning {

experiment::Run run_of(const Plan& plan, const PolicyChoice& choice, const std::string& gpu,
                       std::int64_t tensor_parallel) {
  const auto type = std::ranges::find(plan.gpus, gpu, &GpuType::name);
  KVTIDE_ASSERT(type != plan.gpus.end(), "a GPU type of the plan");
  const std::string yaml = fmt::format("name: {}\n{}gpu: {}\ntensor_parallel: {}\ncompression: {}\nmeasure: [loss]\n",
                                       quoted_text(plan.name), plan.experiment_head, quoted_text(type->profile),
                                       tensor_parallel, choice.yaml);
  const std::string origin =
      fmt::format("{} (policy {}, {} x {}, written out)", plan.path, choice.label, tensor_parallel, gpu);
  const experiment::Experiment file =
      experiment::parse_experiment(yaml, origin, plan.base_folder, {.sets = choice.sets, .seed = {}});
  return file.runs.front();
}

gpu::GpuProfile profile_of(const Plan& plan, const std::string& gpu) {
  return gpu::load_gpu_profile(run_of(plan, {"none", "none", {}}, gpu, 1).setting.gpu);
}

Policy measure_policy(const Plan& plan, const PolicyChoice& choice, const Traffic& traffic, const Model& model,
                      const experiment::TraceInputs& trace) {
  Policy policy;
  policy.label = choice.label;
  policy.run = run_of(plan, choice, plan.gpus.front().name, 1);
  if (const std::string keys = experiment::unserved_keys(policy.run.setting); !keys.empty()) {
    throw InputError(fmt::format("{}: policy {}: not available in a plan: {}", plan.path, choice.label, keys));
  }
  policy.setting = experiment::resolved_compression(policy.run, trace);
  policy.scores = experiment::scores_for(policy.setting, policy.run.setting.layer_budget, trace);
  const auto context = std::clamp<std::int64_t>(std::llround(traffic.mean_context()), 16,
                                                std::max<std::int64_t>(16, traffic.longest.total));
  policy.share = experiment::compressed_share(policy.run, policy.setting, model, *policy.scores, context);
  policy.growth = experiment::cache_growth(model, policy.setting, policy.share, context);
  policy.context = context;
  policy.period = std::nan("");
  policy.loss_model = trace.info().model;
  policy.loss_tokens = trace.num_compressed();
  if (policy.loses_nothing()) return policy;

  experiment::RunResult result;
  experiment::evaluate_loss(policy.run, trace, result);
  const auto number = [&](const char* name) {
    const auto found = result.numbers.find(name);
    return found == result.numbers.end() ? std::nan("") : found->second;
  };
  policy.loss_mean = number("loss_mean");
  policy.loss_worst = number("loss_worst");
  policy.period = number("period");
  const auto profile = std::ranges::find(result.arrays, "loss/mass_loss", &experiment::ResultArray::path);
  if (profile != result.arrays.end()) {
    std::visit([&](const auto& values) { policy.loss_profile.assign(values.begin(), values.end()); }, profile->values);
  }
  if (!(policy.loss_mean <= plan.loss.mean_max)) {
    policy.refusal = fmt::format("loses {:.1f} % of attention on average, allowed {:.1f} %", 100 * policy.loss_mean,
                                 100 * plan.loss.mean_max);
  } else if (!(policy.loss_worst <= plan.loss.worst_max)) {
    policy.refusal = fmt::format("loses {:.1f} % at the worst position, allowed {:.1f} %", 100 * policy.loss_worst,
                                 100 * plan.loss.worst_max);
  }
  return policy;
}

}  // namespace kvtide::planning

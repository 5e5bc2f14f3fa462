#include "experiment/run_evaluator.h"

#include <fmt/format.h>

#include "experiment/loss_evaluation.h"
#include "experiment/machine_evaluation.h"

namespace kvtide::experiment {
namespace {

/// Everything that decides a TraceInputs.
std::string trace_key(const Setting& setting) {
  std::string key =
      fmt::format("{}|{}|{}|{}|{}|{}..{}", static_cast<int>(setting.trace.kind), setting.trace.path,
                  setting.trace.synthetic_kind, to_string(setting.loss.queries),
                  to_string(setting.loss.measure_queries), setting.loss.first_query, setting.loss.last_query);
  key +=
      fmt::format("|{}|{}", setting.loss.score_window, setting.trace.kind == TraceKind::synthetic ? setting.seed : 0);
  for (const auto& [name, value] : setting.trace.parameters) key += fmt::format("|{}={}", name, value);
  return key;
}

}  // namespace

std::shared_ptr<const TraceInputs> RunEvaluator::trace(const Setting& setting) {
  const std::lock_guard lock(mutex_);
  auto& known = traces_[trace_key(setting)];
  if (known == nullptr) known = std::make_shared<const TraceInputs>(setting.trace, setting.loss, setting.seed);
  return known;
}

std::shared_ptr<const Model> RunEvaluator::model(const std::string& name) {
  const std::lock_guard lock(mutex_);
  auto& known = models_[name];
  if (known == nullptr) known = std::make_shared<const Model>(load_model(name));
  return known;
}

std::shared_ptr<gpu::Gpu> RunEvaluator::gpu(const std::string& name) {
  const std::lock_guard lock(mutex_);
  auto& known = gpus_[name];
  if (known == nullptr) known = std::make_shared<gpu::Gpu>(gpu::load_gpu_profile(name), gpu::Fidelity::sampled);
  return known;
}

RunResult RunEvaluator::evaluate(const Run& run) {
  const MeasureSetting& measure = run.setting.measure;
  const auto inputs = trace(run.setting);
  RunResult result;
  result.loss_model = inputs->info().model;
  result.loss_tokens = inputs->num_compressed();
  if (measure.memory || measure.time) {
    const auto scores = scores_for(run.setting.compression, *inputs);
    evaluate_machine(run, *model(run.setting.model), *gpu(run.setting.gpu), *scores, result);
  }
  if (measure.loss || measure.position_scan || measure.prefix_scan || measure.detail)
    evaluate_loss(run, *inputs, result);
  return result;
}

}  // namespace kvtide::experiment

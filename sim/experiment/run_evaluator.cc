#include "experiment/run_evaluator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>

#include "experiment/extrapolation.h"
#include "experiment/front_evaluation.h"
#include "experiment/loss_evaluation.h"
#include "experiment/machine_evaluation.h"
#include "experiment/machine_timeline.h"
#include "experiment/merged_trace.h"
#include "experiment/resolved_compression.h"
#include "experiment/schedule_reader.h"
#include "experiment/serving_evaluation.h"

namespace kvtide::experiment {
namespace {

/// Everything that decides a TraceInputs.
std::string trace_key(const Setting& setting) {
  std::string key =
      fmt::format("{}|{}|{}|{}|{}|{}|{}..{}", static_cast<int>(setting.trace.kind), setting.trace.path,
                  setting.trace.companion, setting.trace.synthetic_kind, to_string(setting.loss.queries),
                  to_string(setting.loss.measure_queries), setting.loss.first_query, setting.loss.last_query);
  const bool is_drawn = setting.trace.kind == TraceKind::synthetic || setting.loss.sample_queries > 0;
  key += fmt::format("|{}|{}|{}", setting.loss.score_window, setting.loss.sample_queries, is_drawn ? setting.seed : 0);
  for (const auto& [name, value] : setting.trace.parameters) key += fmt::format("|{}={}", name, value);
  return key;
}

/// The value of `key`, made by whoever asks first, outside the lock, so that others can make other values meanwhile.
template <typename T, typename Make>
std::shared_ptr<T> shared_value(std::mutex& mutex,
                                std::map<std::string, std::shared_future<std::shared_ptr<T>>>& values,
                                const std::string& key, const Make& make) {
  std::unique_lock lock(mutex);
  if (const auto known = values.find(key); known != values.end()) {
    const std::shared_future<std::shared_ptr<T>> value = known->second;
    lock.unlock();
    return value.get();
  }
  std::promise<std::shared_ptr<T>> promise;
  values.emplace(key, promise.get_future().share());
  lock.unlock();
  try {
    std::shared_ptr<T> value = make();
    promise.set_value(value);
    return value;
  } catch (...) {
    promise.set_exception(std::current_exception());
    throw;
  }
}

/// Files that a setting names must fit the trace, of which the reader of the setting knows nothing.
void check_files(const Setting& setting, const TraceInputs& trace) {
  const bool reads_choices = std::ranges::any_of(setting.compression.stages, [](const kv::Stage& stage) {
    const auto* evict = std::get_if<kv::Evict>(&stage);
    return evict != nullptr && evict->scorer == "file";
  });
  if (reads_choices) (void)scores_for(setting.compression, setting.layer_budget, trace);
  if (!setting.layer_budget.heads_misfit.empty())
    (void)trace.setting_of_layer(setting.compression, setting.layer_budget, 0);
}

/// Sequences of the decode steps that `result` has the time of.
std::vector<std::int64_t> timed_batches(const Run& run, const RunResult& result) {
  if (!run.setting.measure.time) return {};
  std::vector<std::int64_t> batches{run.setting.batch};
  for (const std::string suffix : {"_full", ""}) {
    if (result.numbers.contains("max_sequences_step_us" + suffix))
      batches.push_back(static_cast<std::int64_t>(result.numbers.at("max_sequences" + suffix)));
  }
  return batches;
}

/// Traces kept for later runs; a sweep over seeds of a synthetic trace would fill the memory otherwise.
constexpr std::size_t kTracesKept = 8;

}  // namespace

void RunEvaluator::prepare(const Experiment& experiment) {
  const Run* checked = nullptr;  // neighbours of a sweep mostly share their workload
  for (const Run& run : experiment.runs) {
    if (!run.setting.serving) continue;
    const bool is_known = checked != nullptr && checked->setting.serving == run.setting.serving &&
                          checked->setting.model == run.setting.model && checked->setting.seed == run.setting.seed;
    if (!is_known) check_requests(run, *model(run.setting.model));
    checked = &run;
  }
  for (const Run& run : experiment.runs) {
    if (run.setting.trace.kind == TraceKind::recorded) check_files(run.setting, *trace(run.setting));
  }
}

std::shared_ptr<const TraceInputs> RunEvaluator::trace(const Setting& setting) {
  const std::string key = trace_key(setting);
  auto inputs = shared_value(mutex_, traces_, key, [&] {
    return std::make_shared<const TraceInputs>(setting.trace, setting.loss, setting.seed);
  });
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(trace_order_, key) == trace_order_.end()) trace_order_.push_back(key);
  while (trace_order_.size() > kTracesKept) {
    traces_.erase(trace_order_.front());
    trace_order_.pop_front();
  }
  return inputs;
}

std::shared_ptr<const Model> RunEvaluator::model(const std::string& name) {
  return shared_value(mutex_, models_, name, [&] { return std::make_shared<const Model>(load_model(name)); });
}

std::shared_ptr<gpu::Gpu> RunEvaluator::gpu(const Setting& setting) {
  return shared_value(mutex_, gpus_, fmt::format("{}|{}", setting.gpu, to_string(setting.fidelity)),
                      [&] { return std::make_shared<gpu::Gpu>(gpu::load_gpu_profile(setting.gpu), setting.fidelity); });
}

RunResult RunEvaluator::evaluate(const Run& run) {
  const MeasureSetting& measure = run.setting.measure;
  const auto inputs = trace(run.setting);
  RunResult result;
  result.loss_model = inputs->info().model;
  result.loss_tokens = inputs->num_compressed();
  result.numbers["num_gpus"] = static_cast<double>(run.setting.tensor_parallel * run.setting.pipeline_parallel);
  result.texts["machine_fidelity"] = to_string(run.setting.fidelity);
  result.texts["weight_format"] = kvtide::to_string(run.setting.weights);
  if (measure.memory || measure.time) {
    const kv::Compression setting = resolved_compression(run, *inputs);
    const auto scores = scores_for(setting, run.setting.layer_budget, *inputs);
    evaluate_machine(run, setting, *model(run.setting.model), *gpu(run.setting), *scores, result);
  }
  for (const std::string& warning : schedule_warnings(run.setting)) result.warnings.push_back(warning);
  if (run.setting.probe && !measure.position_scan) {
    result.warnings.emplace_back("probe: not asked, since measure leaves position_scan out");
  }
  const std::string unmeasurable = unmeasurable_reason(run.setting.sharing, inputs->info());
  if (!unmeasurable.empty()) result.warnings.push_back(unmeasurable);
  const bool is_timed = measure.time || run.setting.serving;
  const auto machine = is_timed ? gpu(run.setting) : nullptr;
  result.texts["extrapolates"] = fmt::format(
      "{}", fmt::join(extrapolations(run.setting, machine ? &machine->profile() : nullptr, timed_batches(run, result)),
                      "; "));
  if (unmeasurable.empty() && (measure.loss || measure.position_scan || measure.prefix_scan || measure.detail))
    evaluate_loss(run, *inputs, result);
  if (run.setting.serving) {
    const kv::Compression setting = resolved_compression(run, *inputs);
    const auto scores = scores_for(setting, run.setting.layer_budget, *inputs);
    evaluate_serving(run, setting, *model(run.setting.model), *gpu(run.setting), *scores, result);
    add_expected_loss(*run.setting.serving, result);
    if (run.setting.sharing == kv::LayerSharing{}) evaluate_fronts(run, setting, *inputs, result);
  }
  return result;
}

void RunEvaluator::write_timeline(const Run& run, std::ostream& out) {
  const auto inputs = trace(run.setting);
  const kv::Compression setting = resolved_compression(run, *inputs);
  const auto scores = scores_for(setting, run.setting.layer_budget, *inputs);
  write_machine_timeline(run, setting, *model(run.setting.model), *gpu(run.setting), *scores, out);
}

}  // namespace kvtide::experiment

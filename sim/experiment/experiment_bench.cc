// Runs of the demo a second on one core: both observers, position scan and prefix scan. Traces, references and GPUs are
// made before the clock starts, as a sweep makes them once.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "experiment/experiment.h"
#include "experiment/run_evaluator.h"

namespace kvtide::experiment {
namespace {

/// @param label  of the compression.stages axis at block size 128
void experiment_demo_run(benchmark::State& state, const char* label) {
  const Experiment demo = load_experiment(KVTIDE_SOURCE_DIR "/experiments/demo.yaml");
  const Run* chosen = nullptr;
  for (const Run& run : demo.runs) {
    bool is_stage = false;
    bool is_block_size = false;
    for (std::size_t axis = 0; axis < demo.axes.size(); ++axis) {
      const std::string& shown = demo.axes[axis].labels[static_cast<std::size_t>(run.axis_values[axis])];
      is_stage |= shown == label;
      is_block_size |= shown == "128";
    }
    if (is_stage && is_block_size) chosen = &run;
  }
  if (chosen == nullptr) {
    state.SkipWithError("the demo has no such run");
    return;
  }
  RunEvaluator evaluator;
  benchmark::DoNotOptimize(evaluator.evaluate(*chosen));
  for (auto _ : state) benchmark::DoNotOptimize(evaluator.evaluate(*chosen));
  state.SetItemsProcessed(state.iterations());
  state.SetLabel("runs");
}
BENCHMARK_CAPTURE(experiment_demo_run, evict_half, "evict 50 %")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(experiment_demo_run, int4, "int4")->Unit(benchmark::kMillisecond);

/// A whole sweep of N keep ratios on one trace, reading included: what the runs share (trace, attention reference) is paid
/// once, so a run of a long sweep costs less than a sweep of one run.
void experiment_sweep(benchmark::State& state) {
  const std::string yaml = fmt::format(
      "name: sweep\nmodel: llama-3.1-8b\ngpu: h100-sxm\ntrace: traces/smollm2-135m-2k.h5\nmeasure: [memory, loss]\n"
      "compression: {{stages: [{{evict: {{}}}}]}}\n"
      "sweep: {{'compression.stages[0].evict.keep_ratio': {{range: {{from: 0.05, to: 0.95, count: {}}}}}}}\n",
      state.range(0));
  const Experiment experiment = parse_experiment(yaml, "sweep", KVTIDE_SOURCE_DIR "/experiments");
  for (auto _ : state) {
    RunEvaluator evaluator;
    for (const Run& run : experiment.runs) benchmark::DoNotOptimize(evaluator.evaluate(run));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.SetLabel("runs");
}
BENCHMARK(experiment_sweep)->Arg(1)->Arg(10)->Arg(100)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvtide::experiment

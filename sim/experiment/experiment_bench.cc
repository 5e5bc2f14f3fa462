// Runs of the demo a second on one core: both observers, position scan and prefix scan. Traces, references and GPUs are
// made before the clock starts, as a sweep makes them once.

#include <benchmark/benchmark.h>

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

}  // namespace
}  // namespace kvtide::experiment

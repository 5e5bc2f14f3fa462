// Runs of the demo a second on one core: both observers, position scan and prefix scan. Traces, references and GPUs are
// made before the clock starts, as a sweep makes them once. What a sweep of many settings costs, how it scales to two
// threads, and how soon a long summary is open.

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "experiment/columns.h"
#include "experiment/executor.h"
#include "experiment/experiment.h"
#include "experiment/fake_experiment.h"
#include "experiment/results_reader.h"
#include "experiment/run_evaluator.h"

namespace kvtide::experiment {
namespace {

/// A file of this process in the temporary folder, gone with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name)
      : path_((std::filesystem::temp_directory_path() / fmt::format("{}-{}", ::getpid(), name)).string()) {}
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

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
BENCHMARK(experiment_sweep)->Arg(1)->Arg(10)->Arg(100)->Arg(1000)->Unit(benchmark::kMillisecond);

/// The demo's runs through the executor's worker threads, run files and the final file included; by the clock on the wall.
void experiment_jobs(benchmark::State& state) {
  const Experiment demo = load_experiment(KVTIDE_SOURCE_DIR "/experiments/demo.yaml");
  RunEvaluator evaluator;
  evaluator.prepare(demo);
  benchmark::DoNotOptimize(evaluator.evaluate(demo.runs.front()));
  const TemporaryFile results("kvtide-bench-jobs.h5");
  ExecutorOptions options;
  options.output = results.path();
  options.jobs = state.range(0);
  for (auto _ : state) {
    std::filesystem::remove(results.path());
    const Outcome outcome = execute(
        demo, [&](const Run& run) { return evaluator.evaluate(run); }, options);
    if (outcome.failed > 0) state.SkipWithError("a run failed");
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(demo.runs.size()));
  state.SetLabel("runs");
}
BENCHMARK(experiment_jobs)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);

/// A results file of N runs is opened and its whole summary read. KVTIDE_BENCH_RESULTS names a file to keep it in.
void experiment_open_summary(benchmark::State& state) {
  const Experiment experiment = experiment_of(state.range(0));
  std::vector<RunRecord> records;
  for (const Run& run : experiment.runs) records.push_back(run_record(experiment, run));
  const char* const kept = std::getenv("KVTIDE_BENCH_RESULTS");
  const TemporaryFile results("kvtide-bench-summary.h5");
  const std::string path = kept != nullptr ? kept : results.path();
  write_results(path, results_head(experiment), records,
                [](std::size_t row) {
                  RunResult result;
                  for (const Column& column : columns()) {
                    if (column.type == ColumnType::number) result.numbers[column.name] = static_cast<double>(row);
                  }
                  return result;
                },
                {"bench", "", creation_time()});
  for (auto _ : state) {
    const ResultsReader reader(path);
    benchmark::DoNotOptimize(reader.records().size());
  }
  state.SetLabel("summary of 10,000 runs read");
}
BENCHMARK(experiment_open_summary)->Arg(10000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvtide::experiment

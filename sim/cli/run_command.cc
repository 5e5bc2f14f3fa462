#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/whole_file.h"
#include "cli/command.h"
#include "cli/progress_line.h"
#include "cli/resume_command.h"
#include "cli/run_summary.h"
#include "cli/set_option.h"
#include "cli/shard_option.h"
#include "experiment/dry_run.h"
#include "experiment/executor.h"
#include "experiment/experiment.h"
#include "experiment/mpi_ranks.h"
#include "experiment/run_evaluator.h"

#ifndef KVTIDE_COMMIT
#define KVTIDE_COMMIT "unknown"
#endif

namespace kvtide::cli {
namespace {

std::atomic<bool> interrupted{false};

extern "C" void on_interrupt(int /*signal*/) {
  interrupted.store(true);
}

experiment::Overrides overrides_of(const Arguments& arguments) {
  experiment::Overrides overrides;
  overrides.sets = set_option(arguments);
  if (const auto seed = arguments.integer("seed", 0, INT64_MAX)) overrides.seed = static_cast<std::uint64_t>(*seed);
  return overrides;
}

std::int64_t jobs_of(const Arguments& arguments) {
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  return arguments.integer("jobs", 1, 4096).value_or(cores);
}

void write_timeline(experiment::RunEvaluator& evaluator, const experiment::Run& run, const std::string& path) {
  WholeFile whole(path);
  std::ofstream file(whole.partial_path(), std::ios::binary);
  evaluator.write_timeline(run, file);
  file.close();
  if (!file) throw EnvironmentError(fmt::format("{}: cannot be written", path));
  whole.put_in_place();
}

/// The command that computes the rest of an interrupted one: with all that decides what is computed.
std::string command_to_resume(const Arguments& arguments, const std::string& output,
                              const std::optional<experiment::Shard>& shard) {
  constexpr std::array kOptions{"set", "seed"};
  std::string command = command_again("run", arguments, output, kOptions);
  if (shard) command += fmt::format(" --shard {}/{}", shard->index, shard->count);
  return command + " --resume";
}

int finish(const Arguments& arguments, const std::string& output, const experiment::Outcome& outcome) {
  const bool is_json = arguments.has("json");
  if (is_json) {
    fmt::print("{}\n", run_summary_json(output));
  } else if (!arguments.has("quiet")) {
    const bool use_color = ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
    fmt::print("{}", run_summary_text(output, use_color));
  }
  for (const std::string& failure : outcome.failures) fmt::print(stderr, "failed run {}\n", failure);
  if (!is_json) fmt::print("results: {}\n", output);
  return outcome.failed > 0 ? kSomeRunsFailed : kDone;
}

/// What a rank other than 0 does: it prints nothing, rank 0 meets the same errors and does.
int serve(experiment::MpiRanks& ranks, const Arguments& arguments) {
  std::signal(SIGINT, SIG_IGN);  // rank 0 says when to stop
  try {
    const experiment::Experiment experiment =
        experiment::load_experiment(arguments.positional[0], overrides_of(arguments));
    experiment::RunEvaluator evaluator;
    evaluator.prepare(experiment);
    ranks.serve(experiment, [&evaluator](const experiment::Run& one) { return evaluator.evaluate(one); });
  } catch (const Error&) {
    return kDone;
  }
  return kDone;
}

int run(const Arguments& arguments) {
  const std::unique_ptr<experiment::MpiRanks> ranks = experiment::MpiRanks::join();
  if (ranks && ranks->rank() != 0) return arguments.has("dry-run") ? kDone : serve(*ranks, arguments);
  const std::int64_t jobs = ranks ? ranks->count() - 1 : jobs_of(arguments);
  experiment::Experiment experiment = experiment::load_experiment(arguments.positional[0], overrides_of(arguments));
  if (const auto shard = shard_option(arguments)) {
    experiment::take_shard(experiment, *shard);
    if (!arguments.has("shard")) {
      fmt::print(stderr,
                 "warning: a Slurm array or an indexed job is around: these are only the runs of shard {}/{} (all of "
                 "them: --shard 0/1)\n",
                 shard->index, shard->count);
    }
  }
  for (const std::string& warning : experiment.warnings) fmt::print(stderr, "warning: {}\n", warning);
  if (arguments.has("dry-run")) {
    experiment::DryRunOptions options;
    options.jobs = jobs;
    options.as_json = arguments.has("json");
    fmt::print("{}", experiment::dry_run_text(experiment, options));
    return kDone;
  }
  std::signal(SIGINT, &on_interrupt);
  std::signal(SIGTERM, &on_interrupt);
  experiment::RunEvaluator evaluator;
  evaluator.prepare(experiment);
  experiment::ExecutorOptions options;
  options.output = arguments.text("output").value_or(
      experiment.shard ? shard_path(fmt::format("results/{}.h5", experiment.name), *experiment.shard)
                       : fmt::format("results/{}.h5", experiment.name));
  if (const auto folder = std::filesystem::path(options.output).parent_path();
      !folder.empty() && !arguments.has("output")) {
    std::error_code ignored;  // the executor reports what cannot be written
    std::filesystem::create_directories(folder, ignored);
  }
  options.jobs = jobs;
  options.resume = arguments.has("resume");
  options.interrupted = &interrupted;
  options.provenance = {KVTIDE_VERSION, KVTIDE_COMMIT, experiment::creation_time()};
  if (const auto timeline = arguments.text("timeline")) write_timeline(evaluator, experiment.runs.front(), *timeline);
  experiment::Outcome outcome;
  {
    ProgressLine progress(arguments.has("quiet"));  // its line ends before the results begin
    options.on_progress = [&progress](const experiment::Progress& state) { progress.show(state); };
    const auto evaluate = [&](const experiment::Run& one) {
      return ranks ? ranks->hand_out(one) : evaluator.evaluate(one);
    };
    outcome = experiment::execute(experiment, evaluate, options);
  }
  if (outcome.is_interrupted) {
    fmt::print(stderr, "interrupted: {} runs are kept (in {}.runs, or in {} from before); the rest: {}\n", outcome.done,
               options.output, options.output, command_to_resume(arguments, options.output, experiment.shard));
    return kInterrupted;
  }
  return finish(arguments, options.output, outcome);
}

}  // namespace

Command run_command() {
  return {
      .name = "run",
      .positional = "EXPERIMENT.yaml",
      .min_positional = 1,
      .max_positional = 1,
      .summary = "an experiment: one run, or every combination of its `sweep:` axes",
      .options = {{"output,o", "FILE.h5", "results (default: results/<name>.h5)"},
                  {"jobs", "N", "worker threads, 1..4096 (default: all cores)"},
                  {"set", "KEY=VALUE", "override a key, dotted: compression.block_size=64; repeatable"},
                  {"seed", "N", "override the experiment's seed"},
                  {"dry-run", "", "list the expanded runs with memory and time, compute nothing"},
                  {"shard", "I/N", "only every N-th run from I on (I from 0); auto: of a Slurm array or indexed job"},
                  {"resume", "", "keep the finished runs of an interrupted call, compute the rest"},
                  {"timeline", "FILE.json",
                   "also the kernels of the first run's decode steps, for ui.perfetto.dev (at most 500,000)"},
                  {"quiet", "", "no progress, no table"},
                  {"json", "", "the summary as JSON on stdout"}},
      .examples = {"kvtide run experiments/demo.yaml -o demo.h5 --jobs 2",
                   "kvtide run experiments/demo.yaml --set compression.block_size=96 --dry-run"},
      .run = &run};
}

}  // namespace kvtide::cli

#include "experiment/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "experiment/columns.h"
#include "experiment/results_reader.h"
#include "experiment/run_file.h"
#include "experiment/runs_folder.h"
#include "hdf5/replaceable_output.h"

namespace kvtide::experiment {
namespace {

struct Finished {
  std::size_t row;
  RunResult result;
};

/// Hands out rows in order and takes results back; at most two results a worker wait for the writer.
class WorkQueue {
 public:
  WorkQueue(std::vector<std::size_t> rows, std::size_t capacity, const std::atomic<bool>* interrupted)
      : rows_(std::move(rows)), capacity_(capacity), interrupted_(interrupted) {}

  /// @return nothing when all are handed out, or no more shall be
  std::optional<std::size_t> take() {
    const std::scoped_lock lock(mutex_);
    if (is_closed_ || is_interrupted() || next_ == rows_.size()) return std::nullopt;
    ++in_flight_;
    return rows_[next_++];
  }

  void give_back(Finished finished) {
    std::unique_lock lock(mutex_);
    has_room_.wait(lock, [&] { return finished_.size() < capacity_ || is_closed_; });
    --in_flight_;
    if (!is_closed_) finished_.push_back(std::move(finished));
    has_finished_.notify_one();
  }

  /// Blocks for the next result. @return nothing when no further one will come
  std::optional<Finished> wait() {
    std::unique_lock lock(mutex_);
    while (true) {
      if (!finished_.empty()) {
        Finished finished = std::move(finished_.front());
        finished_.pop_front();
        has_room_.notify_one();
        return finished;
      }
      if (in_flight_ == 0 && (next_ == rows_.size() || is_interrupted())) return std::nullopt;
      // A signal handler may only set a flag, so it is looked at ten times a second.
      has_finished_.wait_for(lock, std::chrono::milliseconds(100));
    }
  }

  /// Nobody waits and nothing is handed out from now on.
  void close() {
    const std::scoped_lock lock(mutex_);
    is_closed_ = true;
    has_room_.notify_all();
  }

  [[nodiscard]] bool is_interrupted() const { return interrupted_ != nullptr && interrupted_->load(); }

 private:
  std::mutex mutex_;
  std::condition_variable has_finished_;
  std::condition_variable has_room_;
  std::vector<std::size_t> rows_;
  std::size_t capacity_;
  const std::atomic<bool>* interrupted_;
  std::size_t next_ = 0;
  std::size_t in_flight_ = 0;
  bool is_closed_ = false;
  std::deque<Finished> finished_;
};

/// Closes the queue and joins, whichever way the writer leaves.
class Workers {
 public:
  Workers(std::int64_t count, WorkQueue& queue, const Experiment& experiment, const Evaluate& evaluate)
      : queue_(queue) {
    try {
      for (std::int64_t i = 0; i < count; ++i) {
        threads_.emplace_back([&queue, &experiment, &evaluate] {
          while (const std::optional<std::size_t> row = queue.take()) {
            queue.give_back({*row, evaluate_safely(evaluate, experiment.runs[*row])});
          }
        });
      }
    } catch (const std::system_error& error) {
      // The machine grants no more threads; those there are do the work, and without one nobody ever would.
      if (threads_.empty()) throw EnvironmentError(fmt::format("cannot start a thread: {}", error.what()));
    }
  }
  ~Workers() {
    queue_.close();
    threads_.clear();  // jthread joins
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

 private:
  WorkQueue& queue_;
  std::vector<std::jthread> threads_;
};

std::vector<RunRecord> records_of(const Experiment& experiment) {
  std::vector<RunRecord> records;
  for (const Run& run : experiment.runs) records.push_back(run_record(experiment, run));
  return records;
}

/// Whether the file says of its runs what the experiment says now. Labels of numbers are read back in another notation.
bool has_records_of(const ResultsReader& found, const Experiment& experiment) {
  for (std::size_t row = 0; row < experiment.runs.size(); ++row) {
    const RunRecord wanted = run_record(experiment, experiment.runs[row]);
    RunRecord there = found.records()[row];
    for (std::size_t axis = 0; axis < experiment.axes.size() && axis < there.labels.size(); ++axis) {
      const bool is_number = experiment.axes[axis].type == AxisType::number;
      if (is_number &&
          std::strtod(there.labels[axis].c_str(), nullptr) == std::strtod(wanted.labels[axis].c_str(), nullptr)) {
        there.labels[axis] = wanted.labels[axis];
      }
    }
    if (there != wanted) return false;
  }
  return true;
}

/// An earlier final file: it keeps the finished runs of an experiment some of whose runs failed.
class EarlierResults {
 public:
  /// @throws InputError when it is another configuration's, and there is no NAME.runs/ to go on with
  EarlierResults(const Experiment& experiment, const ExecutorOptions& options)
      : experiment_(experiment), options_(options) {
    std::error_code ignored;
    if (!options.resume || !std::filesystem::is_regular_file(options.output, ignored)) return;
    has_runs_folder_ = std::filesystem::is_directory(options.output + ".runs", ignored);
    try {
      found_.emplace(options.output);
    } catch (const InputError&) {
      return;  // not a results file, or damaged: written anew
    }
    const bool is_other = !holds_the_experiment();
    if (is_other && !has_runs_folder_) {
      throw InputError(
          fmt::format("{}: holds the results of another configuration; give another --output, or leave --resume "
                      "out to replace it",
                      options.output));
    }
    if (is_other || found_->provenance().build() != options.provenance.build()) found_.reset();
  }

  /// Every run is there and none failed.
  [[nodiscard]] bool is_complete() const {
    return found_ && !has_runs_folder_ && std::ranges::all_of(found_->texts("status"), [](const std::string& status) {
             return status == to_string(RunStatus::ok);
           });
  }

  /// Nothing where the run failed or is damaged. Its figures against the baseline are left out: they
  /// are made anew with what is the baseline now.
  [[nodiscard]] std::optional<RunResult> result(std::size_t row) const {
    if (!found_ || found_->texts("status")[row] != to_string(RunStatus::ok)) return std::nullopt;
    try {
      RunResult result = found_->result(row);
      result.numbers.erase("baseline_run");
      for (const BaselineColumn& column : baseline_columns()) result.numbers.erase(column.name);
      return defects(result).empty() ? std::optional(std::move(result)) : std::nullopt;
    } catch (const InputError&) {
      return std::nullopt;
    }
  }

  /// A complete file again, where the experiment's file says otherwise now: keys are of what was computed, and of no
  /// name, label or comment.
  void bring_up_to_date() const {
    if (found_->head() == results_head(experiment_) && has_records_of(*found_, experiment_)) return;
    const auto result_of = [&](std::size_t row) {
      std::optional<RunResult> kept = result(row);
      if (!kept) throw InputError(fmt::format("{}: run {} is damaged", options_.output, experiment_.runs[row].index));
      return std::move(*kept);
    };
    write_results(options_.output, results_head(experiment_), records_of(experiment_), result_of, options_.provenance);
  }

 private:
  [[nodiscard]] bool holds_the_experiment() const {
    const ResultsHead wanted = results_head(experiment_);
    if (found_->head().experiment_key != wanted.experiment_key || found_->head().shard != wanted.shard) return false;
    return std::ranges::equal(found_->records(), experiment_.runs, {}, &RunRecord::key,
                              [this](const Run& run) { return run_record(experiment_, run).key; });
  }

  const Experiment& experiment_;
  const ExecutorOptions& options_;
  bool has_runs_folder_ = false;
  std::optional<ResultsReader> found_;
};

/// What lies on disk of the experiment's runs.
struct Resumed {
  std::vector<std::size_t> missing;  ///< rows to compute
  std::vector<bool> is_in_earlier;   ///< [row] kept by the earlier final file, not by a run file
  std::int64_t count = 0;            ///< rows that are there
};

Resumed resume(const Experiment& experiment, const ExecutorOptions& options, const RunsFolder& folder,
               const EarlierResults& earlier) {
  if (options.resume) {
    std::vector<std::string> kept;
    std::error_code ignored;
    for (const Run& run : experiment.runs) {
      const std::string path = run_file_path(folder.path(), run.index);
      if (std::filesystem::is_regular_file(path, ignored)) kept.push_back(path);
    }
    remove_fatal_run_files(kept);
  }
  Resumed found;
  found.is_in_earlier.resize(experiment.runs.size(), false);
  for (std::size_t row = 0; row < experiment.runs.size(); ++row) {
    const Run& run = experiment.runs[row];
    std::optional<RunResult> kept;
    if (options.resume) {
      kept = read_run_file(run_file_path(folder.path(), run.index), run.key, options.provenance.build());
    }
    if (kept && kept->status == RunStatus::ok) {
      ++found.count;
    } else if (earlier.result(row)) {
      found.is_in_earlier[row] = true;
      ++found.count;
    } else {
      found.missing.push_back(row);  // failed ones are tried again
    }
  }
  return found;
}

/// Tells the caller how far the runs are.
class ProgressReport {
 public:
  ProgressReport(const ExecutorOptions& options, std::int64_t total) : options_(options), total_(total) {}
  void operator()(const Outcome& outcome) const {
    if (!options_.on_progress) return;
    Progress progress{outcome.done, total_, outcome.failed, 0, std::nullopt};
    progress.elapsed_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    const std::int64_t computed = outcome.done - outcome.resumed;
    if (computed > 0) {
      progress.remaining_seconds =
          progress.elapsed_seconds / static_cast<double>(computed) * static_cast<double>(total_ - outcome.done);
    }
    options_.on_progress(progress);
  }

 private:
  const ExecutorOptions& options_;
  std::int64_t total_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Computes the missing rows into their run files, and counts them in `outcome`.
void compute(const Experiment& experiment, const Evaluate& evaluate, const ExecutorOptions& options,
             const RunsFolder& folder, std::vector<std::size_t> missing, Outcome& outcome) {
  const ProgressReport report(options, std::ssize(experiment.runs));
  report(outcome);
  std::vector<std::string> reasons(experiment.runs.size());  // empty: not failed
  const auto num_workers = std::min<std::int64_t>({options.jobs, std::ssize(missing), 1024});
  WorkQueue queue(std::move(missing), 2 * static_cast<std::size_t>(std::max<std::int64_t>(num_workers, 1)),
                  options.interrupted);
  const Workers workers(num_workers, queue, experiment, evaluate);
  while (std::optional<Finished> finished = queue.wait()) {
    const Run& run = experiment.runs[finished->row];
    write_run_file(run_file_path(folder.path(), run.index), run.key, options.provenance.build(), finished->result);
    ++outcome.done;
    if (finished->result.status == RunStatus::failed) {
      ++outcome.failed;
      reasons[finished->row] = fmt::format("{}: {}", run_name(run.index), finished->result.status_reason);
    }
    report(outcome);
  }
  for (const std::string& reason : reasons) {
    if (!reason.empty()) outcome.failures.push_back(reason);
  }
}

}  // namespace

RunResult evaluate_safely(const Evaluate& evaluate, const Run& run) {
  try {
    RunResult result = evaluate(run);
    if (result.status == RunStatus::ok) {
      if (const std::vector<std::string> found = defects(result); !found.empty()) {
        return RunResult::failure(fmt::format("internal: malformed result: {}", found.front()));
      }
      return result;
    }
    return RunResult::failure(result.status_reason);
  } catch (const Infeasible& infeasible) {
    return RunResult::failure(infeasible.reason);
  } catch (const std::bad_alloc&) {
    return RunResult::failure("not enough memory");
  } catch (const std::exception& exception) {
    return RunResult::failure(exception.what());
  }
}

Outcome execute(const Experiment& experiment, const Evaluate& evaluate, const ExecutorOptions& options) {
  Outcome outcome;
  const EarlierResults earlier(experiment, options);
  if (earlier.is_complete()) {
    earlier.bring_up_to_date();
    outcome.done = outcome.resumed = std::ssize(experiment.runs);
    return outcome;
  }
  if (options.jobs < 1) throw InputError(fmt::format("--jobs: expected an integer >= 1, got {}", options.jobs));
  std::error_code ignored;
  if (std::filesystem::is_directory(options.output, ignored)) {
    throw EnvironmentError(fmt::format("{}: is a folder, not a file to write", options.output));
  }
  std::vector<std::string> traces;
  for (const Run& run : experiment.runs) {
    if (traces.empty() || traces.back() != run.setting.trace.path) traces.push_back(run.setting.trace.path);
  }
  hdf5::require_replaceable(options.output, traces);
  const RunsFolder folder(options.output, experiment, options.resume);

  Resumed found = resume(experiment, options, folder, earlier);
  outcome.done = outcome.resumed = found.count;
  compute(experiment, evaluate, options, folder, std::move(found.missing), outcome);
  outcome.is_interrupted = outcome.done < std::ssize(experiment.runs);
  if (outcome.is_interrupted) return outcome;

  const auto result_of = [&](std::size_t row) {
    const Run& run = experiment.runs[row];
    const std::string run_path = run_file_path(folder.path(), run.index);
    std::optional<RunResult> result =
        found.is_in_earlier[row] ? earlier.result(row) : read_run_file(run_path, run.key, options.provenance.build());
    if (!result) throw InputError(fmt::format("{}: no complete result of this run; use --resume", run_path));
    return std::move(*result);
  };
  write_results(options.output, results_head(experiment), records_of(experiment), result_of, options.provenance);
  folder.remove();
  return outcome;
}

}  // namespace kvtide::experiment

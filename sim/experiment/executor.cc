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

/// The file again, under what the experiment's file says now: keys are of what was computed, and of no name, label or comment.
void rewrite(const ResultsReader& found, const Experiment& experiment, const ExecutorOptions& options) {
  std::vector<RunRecord> records;
  for (const Run& run : experiment.runs) records.push_back(run_record(experiment, run));
  const auto result_of = [&](std::size_t row) {
    RunResult result = found.result(row);
    result.numbers.erase("baseline_run");  // compared anew, with what is the baseline now
    for (const BaselineColumn& column : baseline_columns()) result.numbers.erase(column.name);
    return result;
  };
  write_results(options.output, results_head(experiment), records, result_of, options.provenance);
}

/// An earlier final file of the same configuration and build without failed runs needs nothing done, or only its texts.
/// @throws InputError when it is another configuration's
bool is_already_complete(const Experiment& experiment, const ExecutorOptions& options) {
  std::error_code ignored;
  if (!options.resume || !std::filesystem::is_regular_file(options.output, ignored)) return false;
  if (std::filesystem::is_directory(options.output + ".runs", ignored)) return false;
  std::optional<ResultsReader> found;
  try {
    found.emplace(options.output);
  } catch (const InputError&) {
    return false;  // not a results file, or damaged: written anew
  }
  const ResultsHead wanted = results_head(experiment);
  if (found->head().experiment_key != wanted.experiment_key || found->head().shard != wanted.shard) {
    throw InputError(
        fmt::format("{}: holds the results of another configuration; give another --output, or leave --resume "
                    "out to replace it",
                    options.output));
  }
  const bool is_complete =
      found->provenance().build() == options.provenance.build() && found->records().size() == experiment.runs.size() &&
      std::ranges::all_of(found->texts("status"),
                          [](const std::string& status) { return status == to_string(RunStatus::ok); });
  if (!is_complete) return false;
  if (found->head() != wanted || !has_records_of(*found, experiment)) rewrite(*found, experiment, options);
  return true;
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
  const auto total = static_cast<std::int64_t>(experiment.runs.size());
  if (is_already_complete(experiment, options)) {
    outcome.done = outcome.resumed = total;
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

  if (options.resume) {
    std::vector<std::string> kept;
    for (const Run& run : experiment.runs) {
      const std::string path = run_file_path(folder.path(), run.index);
      if (std::filesystem::is_regular_file(path, ignored)) kept.push_back(path);
    }
    remove_fatal_run_files(kept);
  }
  std::vector<std::string> reasons(experiment.runs.size());  // empty: not failed
  std::vector<std::size_t> missing;
  for (std::size_t row = 0; row < experiment.runs.size(); ++row) {
    const Run& run = experiment.runs[row];
    const std::optional<RunResult> kept =
        options.resume ? read_run_file(run_file_path(folder.path(), run.index), run.key, options.provenance.build())
                       : std::nullopt;
    if (kept && kept->status == RunStatus::ok) {
      ++outcome.resumed;
    } else {
      missing.push_back(row);  // failed ones are tried again
    }
  }
  outcome.done = outcome.resumed;

  const auto start = std::chrono::steady_clock::now();
  const auto report = [&] {
    if (!options.on_progress) return;
    Progress progress{outcome.done, total, outcome.failed, 0, std::nullopt};
    progress.elapsed_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const std::int64_t computed = outcome.done - outcome.resumed;
    if (computed > 0) {
      progress.remaining_seconds =
          progress.elapsed_seconds / static_cast<double>(computed) * static_cast<double>(total - outcome.done);
    }
    options.on_progress(progress);
  };
  report();

  {
    const auto num_workers = std::min<std::int64_t>({options.jobs, static_cast<std::int64_t>(missing.size()), 1024});
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
      report();
    }
  }
  for (const std::string& reason : reasons) {
    if (!reason.empty()) outcome.failures.push_back(reason);
  }
  outcome.is_interrupted = outcome.done < total;
  if (outcome.is_interrupted) return outcome;
  write_results(options.output, experiment, folder.path(), options.provenance);
  folder.remove();
  return outcome;
}

}  // namespace kvtide::experiment

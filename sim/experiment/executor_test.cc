#include "experiment/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/random.h"
#include "experiment/fake_experiment.h"
#include "experiment/run_file.h"
#include "hdf5/hdf5_file.h"

namespace kvtide::experiment {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class Executor : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("executor_test_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  ExecutorOptions options(const std::string& name, std::int64_t jobs = 2) const {
    ExecutorOptions options;
    options.output = (folder_ / name).string();
    options.jobs = jobs;
    options.provenance = {"0.0", "unknown", "2000-01-01T00:00:00Z"};
    return options;
  }

  fs::path folder_;
};

// Field case H6.
TEST_F(Executor, BytesDoNotDependOnTheNumberOfWorkers) {
  const Experiment experiment = experiment_of(24);
  (void)execute(experiment, fake_evaluate, options("one.h5", 1));
  (void)execute(experiment, fake_evaluate, options("four.h5", 4));
  const std::string one = bytes_of(folder_ / "one.h5");
  EXPECT_GT(one.size(), 1000u);
  EXPECT_TRUE(one == bytes_of(folder_ / "four.h5"));
  EXPECT_FALSE(fs::exists(folder_ / "one.h5.runs"));
}

TEST_F(Executor, SummaryHoldsAxesColumnsAndStatusInRunOrder) {
  (void)execute(experiment_of(3), fake_evaluate, options("a.h5"));
  const hdf5::InputFile file((folder_ / "a.h5").string());
  EXPECT_THAT(file.read_integers("/summary/batch"), ElementsAre(0, 10, 20));
  EXPECT_THAT(file.read_integers("/summary/run"), ElementsAre(0, 1, 2));
  EXPECT_THAT(file.read_doubles("/summary/kv_bytes"), ElementsAre(1000, 1001, 1002));
  EXPECT_THAT(file.read_strings("/summary/status"), ElementsAre("ok", "ok", "ok"));
  EXPECT_TRUE(std::isnan(file.read_doubles("/summary/period").at(0)));  // nobody measured it
  EXPECT_EQ(file.string_attribute("/summary/kv_bytes", "units"), "B");
  EXPECT_EQ(file.string_attribute("/", "experiment_yaml"), "name: fake\n");
  EXPECT_EQ(file.string_attribute("/", "created"), "2000-01-01T00:00:00Z");
  EXPECT_EQ(file.string_attribute("/", "loss_model"), "tiny");
  EXPECT_EQ(file.integer_attribute("/", "loss_tokens"), 100);
  EXPECT_EQ(file.info("/runs/00002/loss/mass_loss").shape, std::vector<std::uint64_t>{3});
}

TEST_F(Executor, AFailingRunBecomesARowAndTheOthersGoOn) {
  const auto evaluate = [](const experiment::Run& run) -> RunResult {
    if (run.index == 1) throw InputError("the trace is too short\nby far");
    if (run.index == 2) throw Infeasible{"needs 90 GiB, 80 GiB available"};
    if (run.index == 3) throw std::runtime_error("surprise");
    return fake_evaluate(run);
  };
  const Outcome outcome = execute(experiment_of(5), evaluate, options("a.h5"));
  EXPECT_EQ(outcome.done, 5);
  EXPECT_EQ(outcome.failed, 3);
  EXPECT_THAT(outcome.failures, ElementsAre("00001: the trace is too short by far",
                                            "00002: needs 90 GiB, 80 GiB available", "00003: surprise"));
  const hdf5::InputFile file((folder_ / "a.h5").string());
  EXPECT_THAT(file.read_strings("/summary/status"), ElementsAre("ok", "failed", "failed", "failed", "ok"));
  EXPECT_EQ(file.read_strings("/summary/status_reason").at(2), "needs 90 GiB, 80 GiB available");
}

TEST_F(Executor, MalformedResultIsAFailureNotACrash) {
  const auto evaluate = [](const experiment::Run& run) {
    RunResult result = fake_evaluate(run);
    result.arrays[0].dimensions = {"phase/phase"};  // 3 values over 2, from a sibling group
    return result;
  };
  EXPECT_EQ(execute(experiment_of(1), evaluate, options("a.h5")).failed, 1);
}

TEST_F(Executor, InterruptionKeepsWhatIsFinishedAndResumeGivesTheSameBytes) {
  const Experiment experiment = experiment_of(12);
  (void)execute(experiment, fake_evaluate, options("whole.h5", 2));

  std::atomic<bool> interrupted{false};
  ExecutorOptions first = options("cut.h5", 2);
  first.interrupted = &interrupted;
  first.on_progress = [&](const Progress& progress) { interrupted = progress.done >= 4; };
  const Outcome cut = execute(experiment, fake_evaluate, first);
  EXPECT_TRUE(cut.is_interrupted);
  EXPECT_GE(cut.done, 4);
  EXPECT_LE(cut.done, 4 + 2 * 2 + 2);  // the waiting results and the runs in flight are finished, not dropped
  EXPECT_FALSE(fs::exists(folder_ / "cut.h5"));

  std::atomic<int> computed{0};
  ExecutorOptions second = options("cut.h5", 2);
  second.resume = true;
  const Outcome rest = execute(
      experiment,
      [&](const experiment::Run& run) {
        ++computed;
        return fake_evaluate(run);
      },
      second);
  EXPECT_EQ(rest.done, 12);
  EXPECT_EQ(rest.resumed, cut.done);
  EXPECT_EQ(computed.load(), 12 - cut.done);
  EXPECT_TRUE(bytes_of(folder_ / "whole.h5") == bytes_of(folder_ / "cut.h5"));
}

// What kill -9 may leave: a partial file, a truncated one (copied by hand), one of another run.
TEST_F(Executor, DamagedPartialAndForeignRunFilesAreComputedAgain) {
  const Experiment experiment = experiment_of(12);
  (void)execute(experiment, fake_evaluate, options("whole.h5"));
  std::atomic<bool> interrupted{false};
  ExecutorOptions first = options("cut.h5", 1);
  first.interrupted = &interrupted;
  first.on_progress = [&](const Progress& progress) { interrupted = progress.done >= 4; };
  (void)execute(experiment, fake_evaluate, first);
  const fs::path runs = folder_ / "cut.h5.runs";
  fs::resize_file(runs / "00000.h5", fs::file_size(runs / "00000.h5") / 2);
  fs::copy_file(runs / "00002.h5", runs / "00001.h5", fs::copy_options::overwrite_existing);  // complete, wrong key
  std::ofstream(runs / "00011.h5.partial-123") << "half";

  ExecutorOptions second = options("cut.h5", 1);
  second.resume = true;
  std::vector<std::int64_t> computed;
  (void)execute(
      experiment,
      [&](const experiment::Run& run) {
        computed.push_back(run.index);
        return fake_evaluate(run);
      },
      second);
  EXPECT_EQ(computed.at(0), 0);
  EXPECT_EQ(computed.at(1), 1);
  EXPECT_EQ(std::count(computed.begin(), computed.end(), 2), 0);
  EXPECT_TRUE(bytes_of(folder_ / "whole.h5") == bytes_of(folder_ / "cut.h5"));
  EXPECT_FALSE(fs::exists(runs));
}

TEST_F(Executor, ResumeOfAnotherConfigurationIsRefusedAndAFreshStartIsNot) {
  std::atomic<bool> interrupted{false};
  ExecutorOptions first = options("a.h5", 1);
  first.interrupted = &interrupted;
  first.on_progress = [&](const Progress& progress) { interrupted = progress.done >= 1; };
  (void)execute(experiment_of(12, 1), fake_evaluate, first);
  ExecutorOptions second = options("a.h5", 1);
  second.resume = true;
  EXPECT_THROW((void)execute(experiment_of(12, 2), fake_evaluate, second), InputError);
  second.resume = false;
  const Outcome fresh = execute(experiment_of(12, 2), fake_evaluate, second);
  EXPECT_EQ(fresh.resumed, 0);
  EXPECT_EQ(fresh.done, 12);
}

TEST_F(Executor, ResumeOfAFinishedExperimentComputesNothing) {
  (void)execute(experiment_of(3), fake_evaluate, options("a.h5"));
  ExecutorOptions again = options("a.h5");
  again.resume = true;
  const Outcome outcome = execute(
      experiment_of(3), [](const experiment::Run&) -> RunResult { throw InputError("computed"); }, again);
  EXPECT_EQ(outcome.resumed, 3);
  EXPECT_THROW((void)execute(experiment_of(3, 5), fake_evaluate, again), InputError);  // another configuration's file
  EXPECT_EQ(outcome.failed, 0);
}

// Keys hold neither names nor labels: the runs are the same, and the file is what a run of the new file would have written.
TEST_F(Executor, ResumeOfAFinishedExperimentTakesTheNewNamesLabelsAndYaml) {
  Experiment experiment = experiment_of(3);
  for (experiment::Run& run : experiment.runs) run.baseline = 0;
  (void)execute(experiment, fake_evaluate, options("a.h5"));
  experiment = experiment_of(3);  // without a baseline
  experiment.name = "renamed";
  experiment.yaml = "name: renamed\n# and a comment\n";
  experiment.axes[0] = {"compression.preset", AxisType::text, {"one", "two", "three"}};
  ExecutorOptions again = options("a.h5");
  again.resume = true;
  const Outcome outcome = execute(
      experiment, [](const experiment::Run&) -> RunResult { throw InputError("computed"); }, again);
  EXPECT_EQ(outcome.resumed, 3);
  (void)execute(experiment, fake_evaluate, options("fresh.h5"));
  EXPECT_TRUE(bytes_of(folder_ / "a.h5") == bytes_of(folder_ / "fresh.h5"));
}

// As merge does: results of another build may differ.
TEST_F(Executor, RunsOfAnotherBuildAreComputedAgain) {
  const Experiment experiment = experiment_of(12);
  std::atomic<bool> interrupted{false};
  ExecutorOptions first = options("a.h5", 1);
  first.interrupted = &interrupted;
  first.on_progress = [&](const Progress& progress) { interrupted = progress.done >= 4; };
  (void)execute(experiment, fake_evaluate, first);
  ExecutorOptions newer = options("a.h5");
  newer.resume = true;
  newer.provenance.source_commit = "another";
  EXPECT_EQ(execute(experiment, fake_evaluate, newer).resumed, 0);
  EXPECT_EQ(execute(experiment, fake_evaluate, newer).resumed, 12);  // now finished, of that build
  newer.provenance.kvtide_version = "0.1";
  EXPECT_EQ(execute(experiment, fake_evaluate, newer).resumed, 0);
}

TEST_F(Executor, FailedRunsAreTriedAgainOnResume) {
  std::atomic<bool> interrupted{false};
  ExecutorOptions first = options("a.h5", 1);
  first.interrupted = &interrupted;
  first.on_progress = [&](const Progress& progress) { interrupted = progress.done >= 1; };
  (void)execute(
      experiment_of(12), [](const experiment::Run&) -> RunResult { throw InputError("no"); }, first);
  ExecutorOptions second = options("a.h5", 1);
  second.resume = true;
  const Outcome outcome = execute(experiment_of(12), fake_evaluate, second);
  EXPECT_EQ(outcome.resumed, 0);
  EXPECT_EQ(outcome.failed, 0);
}

// One of three runs fails: what --resume computes is that one, and the file is what a run without failures had written.
TEST_F(Executor, ResumeOfAFileWithFailedRunsComputesOnlyThose) {
  Experiment experiment = experiment_of(3);
  for (experiment::Run& run : experiment.runs) run.baseline = 1;
  (void)execute(experiment, fake_evaluate, options("whole.h5"));
  std::vector<std::int64_t> computed;
  bool fails = true;
  const auto evaluate = [&](const experiment::Run& run) {
    computed.push_back(run.index);
    if (run.index == 1 && fails) throw Infeasible{"needs 90 GiB, 80 GiB available"};
    return fake_evaluate(run);
  };
  EXPECT_EQ(execute(experiment, evaluate, options("a.h5", 1)).failed, 1);
  ExecutorOptions again = options("a.h5", 1);
  again.resume = true;
  computed.clear();
  EXPECT_EQ(execute(experiment, evaluate, again).failed, 1);
  EXPECT_THAT(computed, ElementsAre(1));
  fails = false;
  const Outcome outcome = execute(experiment, evaluate, again);
  EXPECT_EQ(outcome.resumed, 2);
  EXPECT_EQ(outcome.failed, 0);
  EXPECT_THAT(computed, ElementsAre(1, 1));
  EXPECT_TRUE(bytes_of(folder_ / "whole.h5") == bytes_of(folder_ / "a.h5"));
  EXPECT_FALSE(fs::exists(folder_ / "a.h5.runs"));
}

// Interrupted between: the new runs lie in the folder, the old ones still in the file.
TEST_F(Executor, AnInterruptedResumeKeepsTheFileAndTheFolder) {
  const Experiment experiment = experiment_of(12);
  (void)execute(experiment, fake_evaluate, options("whole.h5"));
  const auto evaluate = [](const experiment::Run& run) -> RunResult {
    if (run.index != 5) throw InputError("no");
    return fake_evaluate(run);
  };
  (void)execute(experiment, evaluate, options("a.h5", 1));
  std::atomic<bool> interrupted{false};
  ExecutorOptions second = options("a.h5", 1);
  second.resume = true;
  second.interrupted = &interrupted;
  second.on_progress = [&](const Progress& progress) { interrupted = progress.done >= 3; };
  const Outcome cut = execute(experiment, fake_evaluate, second);
  EXPECT_EQ(cut.resumed, 1);
  EXPECT_TRUE(cut.is_interrupted);
  ExecutorOptions third = options("a.h5", 1);
  third.resume = true;
  const Outcome rest = execute(experiment, fake_evaluate, third);
  EXPECT_EQ(rest.resumed, cut.done);
  EXPECT_TRUE(bytes_of(folder_ / "whole.h5") == bytes_of(folder_ / "a.h5"));
}

TEST_F(Executor, ProgressCountsToTheTotalAndEstimatesTheRest) {
  std::vector<Progress> seen;
  ExecutorOptions with_progress = options("a.h5", 2);
  with_progress.on_progress = [&](const Progress& progress) { seen.push_back(progress); };
  (void)execute(experiment_of(4), fake_evaluate, with_progress);
  ASSERT_EQ(seen.size(), 5u);
  EXPECT_FALSE(seen.front().remaining_seconds.has_value());
  EXPECT_EQ(seen.back().done, 4);
  EXPECT_EQ(seen.back().remaining_seconds, 0.0);
}

TEST_F(Executor, UnwritableOutputIsTheEnvironmentsErrorBeforeAnyRun) {
  std::ofstream(folder_ / "file") << "x";
  std::atomic<int> computed{0};
  const auto evaluate = [&](const experiment::Run& run) {
    ++computed;
    return fake_evaluate(run);
  };
  EXPECT_THROW((void)execute(experiment_of(2), evaluate, options("file/a.h5")), EnvironmentError);
  fs::create_directories(folder_ / "b.h5");
  EXPECT_THROW((void)execute(experiment_of(2), evaluate, options("b.h5")), EnvironmentError);
  EXPECT_EQ(computed.load(), 0);
}

// A full disk while a run is written: the error reaches the caller and the workers end.
TEST_F(Executor, WriterErrorStopsTheWorkers) {
  ExecutorOptions broken = options("a.h5", 2);
  bool is_first = true;
  broken.on_progress = [&](const Progress&) {
    if (is_first) fs::remove_all(folder_ / "a.h5.runs");  // the folder vanishes under the writer
    is_first = false;
  };
  EXPECT_THROW((void)execute(experiment_of(50), fake_evaluate, broken), EnvironmentError);
}

TEST(CreationTime, SourceDateEpochFixesIt) {
  setenv("SOURCE_DATE_EPOCH", "1000000000", 1);
  EXPECT_EQ(creation_time(), "2001-09-09T01:46:40Z");  // the well-known billionth second
  setenv("SOURCE_DATE_EPOCH", "-1", 1);
  EXPECT_THROW((void)creation_time(), InputError);
  setenv("SOURCE_DATE_EPOCH", "soon", 1);
  EXPECT_THROW((void)creation_time(), InputError);
  unsetenv("SOURCE_DATE_EPOCH");
}

TEST(RunFile, EveryPartOfAResultSurvivesTheDisk) {
  const std::string path = testing::TempDir() + "run_file_test.h5";
  experiment::Run run;
  run.index = 7;
  run.seed = 3;
  RunResult written = fake_evaluate(run);
  written.warnings = {"one", "two"};
  write_run_file(path, 42, "0.1.0 abc", written);
  const std::optional<RunResult> read = read_run_file(path, 42, "0.1.0 abc");
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->numbers, written.numbers);
  EXPECT_EQ(read->texts, written.texts);
  EXPECT_EQ(read->warnings, written.warnings);
  ASSERT_EQ(read->arrays.size(), written.arrays.size());
  EXPECT_EQ(std::get<std::vector<float>>(read->arrays[0].values),
            std::get<std::vector<float>>(written.arrays[0].values));
  EXPECT_EQ(std::get<std::vector<std::uint8_t>>(read->arrays[3].values), std::vector<std::uint8_t>{1});
  EXPECT_EQ(read->arrays[0].dimensions, written.arrays[0].dimensions);
  EXPECT_EQ(std::get<std::vector<double>>(read->dimensions[1].values), (std::vector<double>{0.5, 1.5}));
  EXPECT_FALSE(read_run_file(path, 43, "0.1.0 abc").has_value());
  EXPECT_FALSE(read_run_file(path, 42, "0.1.0 abd").has_value());
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace kvtide::experiment

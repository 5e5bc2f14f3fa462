#include "experiment/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>

#include "base/error.h"
#include "experiment/executor.h"
#include "experiment/fake_experiment.h"
#include "experiment/results_reader.h"

namespace kvtide::experiment {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

class Merge : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("merge_test_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    ::setenv("SOURCE_DATE_EPOCH", "946684800", 1);  // 2000-01-01T00:00:00Z
  }
  void TearDown() override {
    ::unsetenv("SOURCE_DATE_EPOCH");
    fs::remove_all(folder_);
  }

  /// Runs the experiment, or a shard of it. @return the file
  std::string run(const std::string& name, Experiment experiment, std::optional<Shard> shard = {},
                  const Evaluate& evaluate = fake_evaluate, const std::string& version = "0.0") {
    if (shard) take_shard(experiment, *shard);
    ExecutorOptions options;
    options.output = (folder_ / name).string();
    options.jobs = 2;
    options.provenance = {version, "unknown", creation_time()};
    (void)execute(experiment, evaluate, options);
    return options.output;
  }
  std::vector<std::string> shards(const Experiment& experiment, std::int64_t count) {
    std::vector<std::string> files;
    for (std::int64_t index = 0; index < count; ++index) {
      files.push_back(run("shard" + std::to_string(index) + ".h5", experiment, Shard{index, count}));
    }
    return files;
  }
  std::string output() const { return (folder_ / "merged.h5").string(); }

  fs::path folder_;
};

// kv_bytes of run i is 1000 + i; in a shard without run 0 the ratio is not known, merged it is.
TEST_F(Merge, RatiosToABaselineInAnotherShardAppearWhenMerged) {
  Experiment experiment = experiment_of(4);
  for (experiment::Run& run : experiment.runs) run.baseline = 0;
  const std::vector<std::string> files = shards(experiment, 2);
  EXPECT_TRUE(std::isnan(ResultsReader(files[1]).numbers("kv_bytes_ratio").at(0)));
  merge_results(output(), files);
  const ResultsReader merged(output());
  const std::vector<double>& ratios = merged.numbers("kv_bytes_ratio");
  for (std::size_t i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(ratios[i], static_cast<double>(1000 + i) / 1000.0);
  EXPECT_EQ(merged.numbers("baseline_run").at(3), 0);
}

// Names of files without folder and ending; shards in two folders make one file.
TEST_F(Merge, EachRunSaysWhatItResolvedTo) {
  Experiment experiment = experiment_of(4);
  const char* const models[] = {"llama-3.1-8b", "my/a.b.json", "my/llama/config.json", "config.json"};
  for (experiment::Run& run : experiment.runs) {
    run.setting.model = models[run.index];
    run.setting.gpu = "../gpus/a30.yaml";
    run.setting.batch = 1 + run.index;
    run.setting.context_tokens = 2048;
    run.setting.loss.span = 16;
  }
  merge_results(output(), shards(experiment, 2));
  EXPECT_EQ(bytes_of(output()), bytes_of(run("whole.h5", experiment)));
  const ResultsReader merged(output());
  EXPECT_THAT(merged.texts("model_setting"), testing::ElementsAre("llama-3.1-8b", "a.b", "llama", "config"));
  EXPECT_THAT(merged.texts("gpu_setting"), testing::Each("a30"));
  EXPECT_THAT(merged.numbers("batch_setting"), testing::ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(merged.numbers("context_tokens_setting"), testing::Each(2048));
  EXPECT_THAT(merged.numbers("loss_span_setting"), testing::Each(16));
}

TEST_F(Merge, SevenShardsAreTheBytesOfOneProcess) {
  const Experiment experiment = experiment_of(24);
  const std::string whole = run("whole.h5", experiment);
  std::vector<std::string> files = shards(experiment, 7);
  std::swap(files[0], files[5]);  // the order of the files does not matter
  EXPECT_EQ(merge_results(output(), files), 24U);
  EXPECT_TRUE(bytes_of(whole) == bytes_of(output()));
}

TEST_F(Merge, AShardHoldsItsRunsUnderTheirIndices) {
  const ResultsReader shard(run("shard.h5", experiment_of(7), Shard{1, 3}));
  ASSERT_EQ(shard.records().size(), 2U);  // 1 and 4 of 0..6
  EXPECT_EQ(shard.records()[0].index, 1);
  EXPECT_EQ(shard.records()[1].index, 4);
  EXPECT_EQ(shard.records()[1].labels.at(0), "40");
  EXPECT_EQ(shard.head().num_runs, 7);
  EXPECT_EQ(shard.head().shard, (Shard{1, 3}));
  EXPECT_EQ(shard.numbers("kv_bytes")[1], 1004.0);
}

// 2^53 + 1 is the first whole number that a double does not hold: it would become ...992.
TEST_F(Merge, SweptWholeNumbersKeepEveryDigit) {
  Experiment experiment = experiment_of(3);
  experiment.axes[0].column = "seed";
  experiment.axes[0].labels[1] = "9007199254740993";
  const std::string whole = run("whole.h5", experiment);
  merge_results(output(), shards(experiment, 2));
  EXPECT_TRUE(bytes_of(whole) == bytes_of(output()));
  EXPECT_EQ(ResultsReader(output()).records()[1].labels[0], "9007199254740993");
  EXPECT_EQ(ResultsReader(output()).integers("seed")[1], 9007199254740993);
}

TEST_F(Merge, MoreShardsThanRunsLeavesSomeEmpty) {
  const Experiment experiment = experiment_of(2);
  const std::string whole = run("whole.h5", experiment);
  EXPECT_EQ(merge_results(output(), shards(experiment, 3)), 2U);
  EXPECT_TRUE(bytes_of(whole) == bytes_of(output()));
}

TEST_F(Merge, AMissingShardIsNamedByItsRuns) {
  std::vector<std::string> files = shards(experiment_of(7), 3);
  files.erase(files.begin() + 1);
  EXPECT_THAT(message_of([&] { merge_results(output(), files); }),
              HasSubstr("5 of 7 runs are in these files; missing: 00001, 00004"));
  EXPECT_FALSE(fs::exists(output()));
}

TEST_F(Merge, ARunThatFailedOnceAndSucceededLaterSucceeded) {
  const Experiment experiment = experiment_of(4);
  const std::string broken = run("broken.h5", experiment, Shard{0, 2}, [](const experiment::Run& one) {
    return one.index == 2 ? RunResult::failure("out of memory") : fake_evaluate(one);
  });
  const std::string whole = run("whole.h5", experiment);
  const std::vector<std::string> files = shards(experiment, 2);
  EXPECT_EQ(merge_results(output(), {broken, files[0], files[1]}), 4U);
  EXPECT_TRUE(bytes_of(whole) == bytes_of(output()));
  EXPECT_EQ(merge_results(output(), {broken, files[1]}), 4U);
  EXPECT_EQ(ResultsReader(output()).texts("status")[2], "failed");
  EXPECT_EQ(ResultsReader(output()).texts("status_reason")[2], "out of memory");
}

TEST_F(Merge, ShardsOfTwoExperimentsAreRefused) {
  const std::string one = run("one.h5", experiment_of(4), Shard{0, 2});
  const std::string other = run("other.h5", experiment_of(4, 1), Shard{1, 2});
  EXPECT_THAT(message_of([&] { merge_results(output(), {one, other}); }), HasSubstr("holds another experiment than"));
}

TEST_F(Merge, ShardsOfTwoVersionsAreRefused) {
  const std::string one = run("one.h5", experiment_of(4), Shard{0, 2});
  const std::string other = run("other.h5", experiment_of(4), Shard{1, 2}, fake_evaluate, "0.1");
  EXPECT_THAT(message_of([&] { merge_results(output(), {one, other}); }), HasSubstr("written by kvtide 0.1"));
}

TEST_F(Merge, WhatIsNoResultsFileIsNamed) {
  const std::string text = (folder_ / "notes.txt").string();
  std::ofstream(text) << "hello";
  EXPECT_THAT(message_of([&] { merge_results(output(), {text}); }), HasSubstr("notes.txt"));
  EXPECT_THAT(message_of([&] { merge_results(output(), {(folder_ / "none.h5").string()}); }),
              HasSubstr("none.h5: no such file"));
}

TEST_F(Merge, AShardOutOfRangeIsRefused) {
  Experiment experiment = experiment_of(4);
  EXPECT_THROW(take_shard(experiment, {-1, 2}), InputError);
  EXPECT_THROW(take_shard(experiment, {2, 2}), InputError);
  EXPECT_THROW(take_shard(experiment, {0, 0}), InputError);
  EXPECT_NO_THROW(take_shard(experiment, {0, 1}));
  EXPECT_EQ(experiment.runs.size(), 4U);
}

}  // namespace
}  // namespace kvtide::experiment

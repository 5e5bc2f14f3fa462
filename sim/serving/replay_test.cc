#include "serving/replay.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

namespace kvtide::serving {
namespace {

// With the measured kernel times fed in, what is left are the scheduling rules.
TEST(Replay, WithTheRunsOwnKernelTimesEveryFigureIsWithinTwoPercent) {
  const std::string folder = KVTIDE_SOURCE_DIR "/../shared/data/e2e";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs ../shared/data/e2e";
  const std::vector<ReplayedRun> runs = replay(folder, {.step_times = StepTimes::tables});
  ASSERT_EQ(runs.size(), 2U);
  for (const ReplayedRun& run : runs) {
    ASSERT_EQ(run.figures.size(), 15U);
    for (const ReplayFigure& figure : run.figures) {
      // The TP2 run's all-reduce is an assumption (no link is stated): its percentiles may be a little further off.
      const bool is_mean = figure.statistic == "mean";
      EXPECT_LE(std::abs(figure.error_percent()), is_mean ? 2.0 : 2.5)
          << figure.run << " " << figure.metric << " " << figure.statistic;
    }
    EXPECT_NEAR(to_seconds(run.outcome.makespan) / run.measured_makespan, 1.0, 0.01) << run.run;
  }
  // The run bound by its cache: LLMServingSim counts 194 preemptions there.
  EXPECT_GT(runs[0].outcome.counters.preemptions, 150);
  EXPECT_LT(runs[0].outcome.counters.preemptions, 250);
  EXPECT_EQ(runs[1].outcome.counters.preemptions, 0);
  EXPECT_EQ(runs[1].outcome.max_running, 128);
}

// Step times of the modeled GPUs: neither run's kernel profile nor its times are used. Targets: means 10 %, percentiles 15 %.
TEST(Replay, WithMachineStepTimesMeansAreWithinTenAndPercentilesWithinFifteenPercent) {
  const std::string folder = KVTIDE_SOURCE_DIR "/../shared/data/e2e";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs ../shared/data/e2e";
  const std::vector<ReplayedRun> runs = replay(folder, {.step_times = StepTimes::machine});
  ASSERT_EQ(runs.size(), 2U);
  for (const ReplayedRun& run : runs) {
    ASSERT_EQ(run.figures.size(), 15U);
    for (const ReplayFigure& figure : run.figures) {
      EXPECT_LE(std::abs(figure.error_percent()), figure.statistic == "mean" ? 10 : 15)
          << figure.run << " " << figure.metric << " " << figure.statistic;
    }
  }
}

}  // namespace
}  // namespace kvtide::serving

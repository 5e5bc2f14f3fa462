#include "serving/replay.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

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

// Two requests of one output token have a TTFT and a latency, which are the same, and no time between tokens.
TEST(Replay, WithoutASecondTokenThereIsNoTimeBetweenTokens) {
  const std::string folder = testing::TempDir() + "one_token_runs";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/runs.csv")
      << "run,model,gpu,device_name,gpu_mem_gb,mem_bw_gb_s,tp,max_num_seqs,max_num_batched_tokens,max_model_len,block_"
         "size,"
         "num_gpu_blocks,prefix_caching,n_layers,n_q_heads,n_kv_heads,head_dim,hidden,ffn,vocab\n"
         "one,small,RTX4090,NVIDIA GeForce RTX 4090,24,1008,1,8,2048,4096,16,100,True,2,8,8,64,512,1024,1000\n";
  std::ofstream(folder + "/one.requests.csv")
      << "queued_s,input_tokens,output_tokens,last_token_s,ttft_ms,tpot_ms,latency_ms\n"
         "0,64,1,0.001,1,0,1\n"
         "1,64,1,1.001,1,0,1\n";
  const std::vector<ReplayedRun> runs = replay(folder, {.step_times = StepTimes::machine});
  ASSERT_EQ(runs.size(), 1U);
  ASSERT_EQ(runs[0].figures.size(), 10U);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(runs[0].figures[i].metric, "ttft_ms");
    EXPECT_EQ(runs[0].figures[i + 5].metric, "latency_ms");
    EXPECT_DOUBLE_EQ(runs[0].figures[i].predicted, runs[0].figures[i + 5].predicted);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kvtide::serving

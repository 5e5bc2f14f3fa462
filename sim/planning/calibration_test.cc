#include "planning/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace kvtide::planning {
namespace {

using testing::HasSubstr;

// The layout that vLLM's client prints; figures made up.
constexpr const char* kPrinted = R"(
============ Serving Benchmark Result ============
Successful requests:                     100
Request rate configured (RPS):           4.00
Benchmark duration (s):                  30.10
Total input tokens:                      50000
Total generated tokens:                  10000
Mean TTFT (ms):                          80.5
Median TTFT (ms):                        70.0
Mean TPOT (ms):                          12.25
==================================================
============ Serving Benchmark Result ============
Traffic request rate:                    inf
Max reqeust concurrency:                 32
Successful requests:                     64
Total input tokens:                      6400
Total generated tokens:                  640
Mean TTFT (ms):                          200
Mean TPOT (ms):                          20
==================================================
)";

TEST(Benchmarks, PrintedBlocksAreRuns) {
  const std::vector<MeasuredRun> runs = read_benchmarks(kPrinted, "log");
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].line, 2);
  EXPECT_DOUBLE_EQ(runs[0].rate, 4);
  EXPECT_DOUBLE_EQ(runs[0].mean_input, 500);
  EXPECT_DOUBLE_EQ(runs[0].mean_output, 100);
  EXPECT_DOUBLE_EQ(runs[0].mean_ttft, 0.0805);
  EXPECT_DOUBLE_EQ(runs[0].mean_tpot, 0.01225);
  EXPECT_DOUBLE_EQ(runs[1].rate, 0);  // inf: all at once
  EXPECT_EQ(runs[1].concurrency, 32);
}

TEST(Benchmarks, SavedResultsAreAnObjectALineOrAFile) {
  const std::string object =
      R"({"completed": 10, "total_input_tokens": 100, "total_output_tokens": 50, "mean_ttft_ms": 5, "mean_tpot_ms": 2, "request_rate": "inf", "max_concurrency": null, "ttfts": [0.1]})";
  const std::vector<MeasuredRun> one = read_benchmarks(object, "r.json");
  ASSERT_EQ(one.size(), 1U);
  EXPECT_DOUBLE_EQ(one[0].mean_output, 5);
  EXPECT_EQ(one[0].concurrency, 0);
  EXPECT_EQ(read_benchmarks(object + "\n" + object + "\n", "r.jsonl").size(), 2U);
}

TEST(Benchmarks, WhatIsMissingIsNamedWithItsLine) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      (void)read_benchmarks(text, "log");
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message("\n== Serving Benchmark Result ==\nSuccessful requests: 5\n"),
              HasSubstr("log:2: the run has no total_input"));
  EXPECT_THAT(message("INFO started\n"), HasSubstr("no run"));
  EXPECT_THAT(message(""), HasSubstr("no run"));
  EXPECT_THAT(message("{\"completed\": -3}"), HasSubstr("completed above 0"));
  EXPECT_THAT(message("{\"completed\": 0.5}"), HasSubstr("completed: expected a whole number"));  // else a run of none
}

/// A server whose step takes `base` seconds at each run's concurrency.
PredictedRun server(const MeasuredRun& run, const Calibration& calibration) {
  const double base = 0.01 * static_cast<double>(run.concurrency);
  const double step = base * calibration.step_factor + calibration.step_gap;
  return {.ttft = 2 * step, .tpot = step};
}

std::vector<MeasuredRun> measured(const Calibration& truth) {
  std::vector<MeasuredRun> runs;
  for (const std::int64_t concurrency : {1, 2, 3, 4, 5, 6}) {
    MeasuredRun run;
    run.concurrency = concurrency;
    const PredictedRun seen = server(run, truth);
    run.mean_tpot = seen.tpot;
    run.mean_ttft = seen.ttft + truth.ttft_offset;
    runs.push_back(run);
  }
  return runs;
}

TEST(Calibration, FindsTheConstantsThatMadeTheRuns) {
  const Calibration truth{.step_factor = 1.2, .step_gap = 0.002, .ttft_offset = 0.05};
  const CalibrationOutcome outcome = calibrate(measured(truth), server);
  EXPECT_NEAR(outcome.fitted.step_factor, 1.2, 0.03);
  EXPECT_NEAR(outcome.fitted.step_gap, 0.002, 0.0005);
  EXPECT_NEAR(outcome.fitted.ttft_offset, 0.05, 0.004);
  EXPECT_EQ(outcome.num_fitted, 3U);
  EXPECT_EQ(outcome.num_held_out, 3U);
  EXPECT_LT(outcome.held_out_after.tpot, 0.02);
  EXPECT_GT(outcome.held_out_before.tpot, 0.15);
}

TEST(Calibration, ARunAloneFitsAFactorAndHoldsNothingOut) {
  std::vector<MeasuredRun> one{measured({.step_factor = 1.5}).front()};
  const CalibrationOutcome outcome = calibrate(one, server);
  EXPECT_NEAR(outcome.fitted.step_factor, 1.5, 0.03);
  EXPECT_EQ(outcome.fitted.step_gap, 0);
  EXPECT_EQ(outcome.num_held_out, 0U);
  EXPECT_TRUE(std::isnan(outcome.held_out_after.tpot));
}

}  // namespace
}  // namespace kvtide::planning

#include "planning/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "planning/calibration_server.h"

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

// What the client prints before it begins belongs to the run that follows: here 1 /s, then all at once, then 2 /s with at most 4 in
// flight, behind a block that was cut short before its closing line.
TEST(Benchmarks, WhatIsSaidBeforeABlockBelongsToIt) {
  const std::string figures =
      "Successful requests: 50\nTotal input tokens: 5000\nTotal generated tokens: 1000\nMean TTFT (ms): 50\n"
      "Mean TPOT (ms): 7\n";
  const std::string head = "=== Serving Benchmark Result ===\n", end = "==========\n";
  const std::vector<MeasuredRun> runs =
      read_benchmarks("Traffic request rate: 1.0\n" + head + figures + end + "Traffic request rate: inf\n" + head +
                          figures + "Traffic request rate: 2.0\nMaximum request concurrency: 4\n" + head +
                          "Request rate configured (RPS): 2.50\n" + figures + end,
                      "log");
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_DOUBLE_EQ(runs[0].rate, 1);
  EXPECT_EQ(runs[0].concurrency, 0);
  EXPECT_DOUBLE_EQ(runs[1].rate, 0);
  EXPECT_EQ(runs[1].concurrency, 0);
  EXPECT_DOUBLE_EQ(runs[2].rate, 2.5);  // the block's own word
  EXPECT_EQ(runs[2].concurrency, 4);
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

// 100 /s of requests that last a second or so: without a limit most of 50 run at once, with one of 2 at most two do. A step of 2 sequences
// is a smaller one, and nobody waits for more than one prompt; 1 /s alone never has two under way for long.
TEST(BenchmarkedServer, KeepsTheLimitOfRequestsInFlightBesideARate) {
  const PredictRun predict = predict_on({.model = "smollm2-135m", .gpu = "l4"});
  MeasuredRun run{.rate = 100, .requests = 50, .mean_input = 500, .mean_output = 300};
  const PredictedRun open = predict(run, {});
  run.concurrency = 2;
  const PredictedRun limited = predict(run, {});
  EXPECT_LT(limited.tpot, 0.9 * open.tpot);
  MeasuredRun users{.concurrency = 2, .requests = 50, .mean_input = 500, .mean_output = 300};
  const PredictedRun closed = predict(users, {});
  EXPECT_NEAR(limited.tpot / closed.tpot, 1, 0.02);  // so fast that two are always under way
}

// All at once, ten at a time: n / 10 waves, each as long as the others, so that a request waits (n / 10 - 1) / 2 of them on average. 600
// requests wait 59 / 29 times as long as 300; a token takes as long in every wave.
TEST(BenchmarkedServer, QueuesAsManyRequestsAsWereMeasured) {
  const PredictRun predict = predict_on({.model = "smollm2-135m", .gpu = "l4", .max_num_seqs = 10});
  const PredictedRun some = predict({.requests = 300, .mean_input = 200, .mean_output = 100}, {});
  const PredictedRun twice = predict({.requests = 600, .mean_input = 200, .mean_output = 100}, {});
  EXPECT_NEAR(twice.ttft / some.ttft, 59 / 29.0, 0.03);
  EXPECT_NEAR(twice.tpot / some.tpot, 1, 0.01);
  EXPECT_GT(twice.queueing, 0.9 * twice.ttft);
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

// Of runs 0, 2 and 4 (1, 3 and 5 users) the last one queues for more than half of its TTFT, and for 7 s longer than predicted. At half
// the second one still counts.
TEST(Calibration, AQueueTellsNoOffset) {
  const Calibration truth{.ttft_offset = 0.05};
  std::vector<MeasuredRun> runs = measured(truth);
  runs[4].mean_ttft += 7;
  double share_of_third = 0.5;
  const PredictRun queued = [&](const MeasuredRun& run, const Calibration& calibration) {
    PredictedRun seen = server(run, calibration);
    seen.queueing = seen.ttft * (run.concurrency == 5 ? 0.51 : run.concurrency == 3 ? share_of_third : 0);
    return seen;
  };
  const CalibrationOutcome outcome = calibrate(runs, queued);
  EXPECT_EQ(outcome.num_offsets, 2U);
  EXPECT_NEAR(outcome.fitted.ttft_offset, 0.05, 0.004);
  share_of_third = 0.51;
  EXPECT_EQ(calibrate(runs, queued).num_offsets, 1U);
  const std::vector<MeasuredRun> full(runs.begin() + 4, runs.begin() + 5);
  EXPECT_EQ(calibrate(full, queued).fitted.ttft_offset, 0);
}

// Roots of the squared logarithms: of 0.1 and 0.3 0.316 before; of 0.02 and 0.32 0.321 is the same within 0.01, of 0.02 and 0.34 0.341
// is not. TPOT alone may be worse, too, whatever an offset does to TTFT.
TEST(Calibration, IsWorseWhereStepsOrBothErrorsTogetherAre) {
  CalibrationOutcome outcome;
  const auto is_worse = [&outcome](double ttft, double tpot) {
    outcome.held_out_after = {.ttft = ttft, .tpot = tpot};
    return outcome.is_worse();
  };
  outcome.held_out_before = {.ttft = 0.3, .tpot = 0.1};
  EXPECT_FALSE(is_worse(0.32, 0.02));
  EXPECT_TRUE(is_worse(0.34, 0.02));
  EXPECT_FALSE(is_worse(0.1, 0.105));
  EXPECT_TRUE(is_worse(0.1, 0.115));
  // A log measures no TTFT, a run alone nothing.
  outcome.held_out_before.ttft = std::nan("");
  EXPECT_FALSE(is_worse(std::nan(""), 0.09));
  EXPECT_TRUE(is_worse(std::nan(""), 0.12));
  outcome.held_out_before.tpot = std::nan("");
  EXPECT_FALSE(is_worse(std::nan(""), std::nan("")));
}

// Two bytes an element or one, the weights in the same: at 32 sequences of 8,192 tokens of Llama-3.1-8B (32 GiB of cache, 15 GiB of
// weights) a step that only reads takes (16 + 15) / (32 + 15) = 0.66 of the time.
TEST(BenchmarkedServer, ReadsTheCacheInItsOwnType) {
  MeasuredRun run{.decode_sequences = 32, .decode_context = 8192};
  const double plain = predict_on({.model = "llama-3.1-8b", .gpu = "h100-sxm"})(run, {}).tpot;
  const double fp8 =
      predict_on({.model = "llama-3.1-8b", .gpu = "h100-sxm", .compression = "{preset: fp8}"})(run, {}).tpot;
  EXPECT_GT(fp8 / plain, 0.6);
  EXPECT_LT(fp8 / plain, 0.8);
  EXPECT_THROW(
      (void)predict_on(
          {.model = "llama-3.1-8b", .gpu = "h100-sxm", .compression = "{stages: [{evict: {keep_ratio: 0.5}}]}"}),
      InputError);
}

// One sequence of 16 tokens reads next to nothing but weights: 7.0 of 8.0 billion in a byte, the rest in two, are 0.56 of the bytes;
// what kernels cost beside reading is the same.
TEST(BenchmarkedServer, ReadsItsWeightsAsTheyAreStored) {
  MeasuredRun run{.decode_sequences = 1, .decode_context = 16};
  const auto tpot = [&](const char* weights) {
    return predict_on({.model = "llama-3.1-8b", .gpu = "h100-sxm", .weights = weights})(run, {}).tpot;
  };
  EXPECT_EQ(tpot("published"), tpot("bf16"));
  EXPECT_GT(tpot("fp8") / tpot("bf16"), 0.56);
  EXPECT_LT(tpot("fp8") / tpot("bf16"), 0.9);
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

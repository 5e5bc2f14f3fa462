#include "serving/serving_run.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace kvtide::serving {
namespace {

/// 1 ms a step, 1 us a prompt token, 1 ns a decoded token of context.
class LinearStepTime : public StepTime {
 public:
  Picoseconds duration(const StepShape& shape) override {
    const std::int64_t prompt_tokens = shape.num_tokens() - shape.num_decodes;
    return Picoseconds{1'000'000'000 + 1'000'000 * prompt_tokens + 1000 * shape.decode_kv_tokens};
  }
};

RequestTrace random_trace(std::uint64_t seed, std::int64_t count, std::uint64_t span_ms) {
  RandomStream random(seed, "trace");
  RequestTrace trace;
  trace.shared_block_tokens = 16;
  for (std::int64_t i = 0; i < count; ++i) {
    Request request;
    request.arrival = Picoseconds{static_cast<std::int64_t>(random.below(span_ms) * 1'000'000'000)};
    request.input_tokens = 1 + static_cast<std::int64_t>(random.below(300));
    request.output_tokens = 1 + static_cast<std::int64_t>(random.below(200));
    const std::uint64_t family = random.below(4);
    for (std::uint64_t b = 0; b < family && static_cast<std::int64_t>(b + 1) * 16 <= request.input_tokens; ++b) {
      request.shared_blocks.push_back(100 * family + b);
    }
    trace.requests.push_back(request);
  }
  std::ranges::stable_sort(trace.requests, {}, &Request::arrival);
  return trace;
}

class ServingRunTest : public testing::TestWithParam<std::int64_t> {};

// Tight caches preempt, short spans queue, long ones leave the engine idle between requests.
TEST_P(ServingRunTest, RunsOfStepsEqualOneStepAfterAnother) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const RequestTrace trace = random_trace(seed, 60, seed % 2 == 0 ? 500 : 20'000);
    const EngineSettings settings{.num_blocks = GetParam(), .max_num_seqs = 12, .max_num_batched_tokens = 128};
    LinearStepTime step_time;
    const ServingOutcome skipping = serve(trace, settings, step_time);
    TraceSource source(trace);
    const ServingOutcome stepping =
        serve(source, settings, step_time, {.shared_block_tokens = 16, .max_steps_at_once = 1});
    EXPECT_EQ(skipping.counters.steps, stepping.counters.steps);
    EXPECT_EQ(skipping.counters.preemptions, stepping.counters.preemptions);
    EXPECT_EQ(skipping.counters.hit_blocks, stepping.counters.hit_blocks);
    EXPECT_EQ(skipping.output_tokens, stepping.output_tokens);
    EXPECT_DOUBLE_EQ(skipping.max_used_share, stepping.max_used_share);
    ASSERT_EQ(skipping.requests.size(), trace.requests.size());
    for (std::size_t i = 0; i < trace.requests.size(); ++i) {
      EXPECT_EQ(skipping.requests[i].scheduled, stepping.requests[i].scheduled) << seed << " " << i;
      EXPECT_EQ(skipping.requests[i].first_token, stepping.requests[i].first_token) << seed << " " << i;
      EXPECT_EQ(skipping.requests[i].last_token, stepping.requests[i].last_token) << seed << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Blocks, ServingRunTest, testing::Values(40, 90, 1000));

// Field case H5: latency = TTFT + (outputs - 1) x TPOT for every request, so that errors of the parts cannot cancel unseen.
TEST(ServingRun, LatencyIsTheSumOfItsParts) {
  const RequestTrace trace = random_trace(3, 40, 1000);
  LinearStepTime step_time;
  const ServingOutcome outcome = serve(trace, {.num_blocks = 60, .max_num_seqs = 8}, step_time);
  for (const RequestTimes& times : outcome.requests) {
    if (times.output_tokens == 1) continue;
    const double sum = to_seconds(times.ttft()) + static_cast<double>(times.output_tokens - 1) * times.tpot_seconds();
    EXPECT_NEAR(to_seconds(times.latency()), sum, 1e-12);
  }
}

// One request, 10 prompt and 3 output tokens: a step of 1 ms + 10 us, then decodes of 1 ms + 11 ns and 1 ms + 12 ns.
TEST(ServingRun, OneRequestTakesItsPromptAndItsDecodes) {
  RequestTrace trace;
  trace.requests.push_back({.arrival = Picoseconds{5}, .input_tokens = 10, .output_tokens = 3, .shared_blocks = {}});
  LinearStepTime step_time;
  const ServingOutcome outcome = serve(trace, {.num_blocks = 10}, step_time);
  EXPECT_EQ(outcome.requests[0].ttft().count(), 1'010'000'000);
  EXPECT_EQ(outcome.requests[0].latency().count(), 3'010'000'000 + 11'000 + 12'000);
  EXPECT_EQ(outcome.requests[0].queueing().count(), 0);
  EXPECT_EQ(outcome.counters.steps, 3);
}

TEST(ServingRun, StreamedRequestsComeInOrderOfArrivalAndAreNotKept) {
  const RequestTrace trace = random_trace(5, 50, 800);
  TraceSource source(trace, 3, Picoseconds{1'000'000'000'000});
  LinearStepTime step_time;
  std::vector<RequestTimes> streamed;
  const ServingOutcome outcome =
      serve(source, {.num_blocks = 200, .max_num_seqs = 8}, step_time,
            {.on_request = [&](const RequestTimes& one) { streamed.push_back(one); }, .shared_block_tokens = 16});
  EXPECT_TRUE(outcome.requests.empty());
  ASSERT_EQ(streamed.size(), 150U);
  EXPECT_TRUE(std::ranges::is_sorted(streamed, {}, &RequestTimes::queued));
}

TEST(ServingSeries, MergesIntervalsAndKeepsTheirSums) {
  ServingSeries series(Picoseconds{1000});
  SeriesState state{.running = 2, .output_tokens = 10};
  series.add(Picoseconds{500}, Picoseconds{2500}, state);  // a quarter, a half, a quarter of it
  EXPECT_NEAR(series.intervals()[1].output_tokens, 5, 1e-9);
  EXPECT_NEAR(series.intervals()[0].running, 2 * 500e-12, 1e-18);
  series.add(Picoseconds{600'000}, Picoseconds{600'001}, state);
  EXPECT_EQ(series.interval().count(), 2000);  // 600 intervals are more than 512
  EXPECT_EQ(series.intervals().size(), 301U);
  double tokens = 0;
  for (const SeriesInterval& interval : series.intervals()) tokens += interval.output_tokens;
  EXPECT_NEAR(tokens, 20, 1e-9);
}

}  // namespace
}  // namespace kvtide::serving

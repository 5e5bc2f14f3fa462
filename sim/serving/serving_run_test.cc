#include "serving/serving_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/random.h"
#include "serving/workload.h"

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

// Everybody who is there is in line or in the batch: both, added up over time, are the latencies added up. A run of steps that nobody
// can join counts who comes meanwhile from then on.
TEST(ServingSeries, CountsEverybodyFromArrivalToTheLastToken) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const RequestTrace trace = random_trace(seed, 60, seed % 2 == 0 ? 500 : 20'000);
    LinearStepTime step_time;
    const ServingOutcome outcome =
        serve(trace, {.num_blocks = seed < 4 ? 40 : 4000, .max_num_seqs = 6, .max_num_batched_tokens = 128}, step_time);
    double present = 0, latency = 0;
    for (const SeriesInterval& interval : outcome.series.intervals()) present += interval.running + interval.waiting;
    for (const RequestTimes& times : outcome.requests) latency += to_seconds(times.latency());
    EXPECT_NEAR(present, latency, 1e-6 * latency) << seed;
  }
}

class ServingRunTest : public testing::TestWithParam<std::int64_t> {};

// Tight caches preempt, short spans queue, long ones leave the engine idle between requests.
TEST_P(ServingRunTest, RunsOfStepsEqualOneStepAfterAnother) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const RequestTrace trace = random_trace(seed, 60, seed % 2 == 0 ? 500 : 20'000);
    EngineSettings settings{.num_blocks = GetParam(), .max_num_seqs = 12, .max_num_batched_tokens = 128};
    if (seed > 5 && GetParam() >= 90) settings.growth = {.window = 50, .window_weight = 1.5};
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

// SGLang's estimate, looked at again in each step (priorities) or once somebody has left; pages of 64 stand still while the estimate falls.
TEST(ServingRun, RunsOfStepsEqualOneStepAfterAnotherUnderAnEstimate) {
  for (const SchedulingPolicy policy : {SchedulingPolicy::fcfs, SchedulingPolicy::priority}) {
    for (const std::int64_t block_size : {1, 16, 64}) {
      for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        RequestTrace trace = random_trace(seed, 60, 500);
        trace.shared_block_tokens = 64;
        for (Request& request : trace.requests) request.output_tokens *= 8;
        const EngineSettings settings{.num_blocks = 4096 / block_size + 1,
                                      .block_size = block_size,
                                      .max_num_seqs = 12,
                                      .max_num_batched_tokens = 512,
                                      .reservation = Reservation::estimated_output,
                                      .prefill_first = true,
                                      .policy = policy};
        LinearStepTime step_time;
        const ServingOutcome skipping = serve(trace, settings, step_time);
        TraceSource source(trace);
        const ServingOutcome stepping =
            serve(source, settings, step_time, {.shared_block_tokens = 64, .max_steps_at_once = 1});
        EXPECT_EQ(skipping.counters.steps, stepping.counters.steps);
        EXPECT_EQ(skipping.counters.preemptions, stepping.counters.preemptions);
        for (std::size_t i = 0; i < trace.requests.size(); ++i) {
          EXPECT_EQ(skipping.requests[i].scheduled, stepping.requests[i].scheduled) << block_size << " " << seed;
          EXPECT_EQ(skipping.requests[i].last_token, stepping.requests[i].last_token) << block_size << " " << seed;
        }
      }
    }
  }
}

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

// 2^63 - 1 ps, the last time there is: 9,223,372.04 s. Intervals of 2^15 s end beyond it (282 x 32,768 s = 9,240,576 s).
TEST(ServingSeries, ReachesTheEndOfSimulatedTime) {
  ServingSeries series;
  series.add(Picoseconds::zero(), Picoseconds::max(), {.running = 2, .used_blocks = 0, .used_blocks_at_end = 10});
  double running = 0, used = 0;
  for (const SeriesInterval& interval : series.intervals()) {
    running += interval.running;
    used += interval.used_blocks;
  }
  EXPECT_NEAR(running, 2 * 9'223'372.04, 1);
  EXPECT_NEAR(used, 5 * 9'223'372.04, 3);  // from 0 to 10 evenly: 5 in the mean
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

/// Every step 10 ms.
class FixedStepTime : public StepTime {
 public:
  Picoseconds duration(const StepShape& /*shape*/) override { return from_seconds(0.010); }
};

RequestTrace trace_of(std::vector<Request> requests) {
  RequestTrace trace;
  trace.requests = std::move(requests);
  return trace;
}

Request request_at(double seconds, std::int64_t input, std::int64_t output) {
  return {.arrival = from_seconds(seconds), .input_tokens = input, .output_tokens = output, .shared_blocks = {}};
}

std::vector<double> milliseconds_to_the_end(const ServingOutcome& outcome) {
  std::vector<double> values;
  for (const RequestTimes& times : outcome.requests) values.push_back(std::round(to_seconds(times.last_token) * 1e3));
  return values;
}

constexpr EngineSettings kOneAtATime{.num_blocks = 2000, .max_num_seqs = 1, .max_num_batched_tokens = 4096};

TEST(FleetRun, ReplicasServeSideBySide) {
  const RequestTrace trace = trace_of({request_at(0, 4, 2), request_at(0, 4, 2)});
  FixedStepTime step_time;
  TraceSource alone(trace), two(trace);
  EXPECT_EQ(milliseconds_to_the_end(serve(alone, {.engine = kOneAtATime}, step_time)), (std::vector<double>{20, 40}));
  EXPECT_EQ(milliseconds_to_the_end(serve(two, {.engine = kOneAtATime, .replicas = 2}, step_time)),
            (std::vector<double>{20, 20}));
}

// The third request comes at 50 ms. Dealt round it joins engine 0, busy for 100 ms; the emptier engine 1 answers at 60 ms.
TEST(FleetRun, TheLeastLoadedEngineIsChosen) {
  const RequestTrace trace = trace_of({request_at(0, 4, 10), request_at(0, 4, 1), request_at(0.05, 4, 1)});
  FixedStepTime step_time;
  TraceSource dealt(trace), loaded(trace);
  Fleet fleet{.engine = kOneAtATime, .replicas = 2};
  EXPECT_EQ(milliseconds_to_the_end(serve(dealt, fleet, step_time)), (std::vector<double>{100, 10, 110}));
  fleet.routing = Routing::least_loaded;
  EXPECT_EQ(milliseconds_to_the_end(serve(loaded, fleet, step_time)), (std::vector<double>{100, 10, 60}));
}

// 1,000 tokens of 1 MB at 10 GB/s: 100 ms. Both prompts are computed in one step of 10 ms; their caches follow one another.
// Request 0: first
// token 10, cache 110, tokens 120 and 130. Request 1: cache 210, token 220.
TEST(FleetRun, PrefillApartFromDecodeSendsTheCache) {
  const RequestTrace trace = trace_of({request_at(0, 1000, 3), request_at(0, 1000, 2)});
  FixedStepTime step_time;
  TraceSource source(trace);
  const EngineSettings engine{.num_blocks = 2000, .max_num_seqs = 8, .max_num_batched_tokens = 4096};
  const Fleet fleet{.engine = engine, .prefill_replicas = 1, .transfer_bandwidth = 10e9, .bytes_per_token = 1e6};
  const ServingOutcome outcome = serve(source, fleet, step_time, {.most_gaps_kept = 10});
  EXPECT_EQ(milliseconds_to_the_end(outcome), (std::vector<double>{130, 220}));
  EXPECT_EQ(outcome.transferred_tokens, 2000);
  EXPECT_NEAR(to_seconds(outcome.requests[0].ttft()), 0.010, 1e-9);
  EXPECT_NEAR(to_seconds(outcome.requests[0].longest_gap), 0.110, 1e-9);
  ASSERT_EQ(outcome.kept_gaps.size(), 3U);
  EXPECT_NEAR(outcome.kept_gaps[1].seconds, 0.010, 1e-9);  // request 0, its third token
  EXPECT_NEAR(outcome.kept_gaps[2].seconds, 0.210, 1e-9);
  Fleet linkless = fleet;
  linkless.transfer_bandwidth = 0;
  EXPECT_THROW((void)serve(source, linkless, step_time), InputError);
}

TEST(FleetRun, AStoppedRunLeavesTheRestUndone) {
  const RequestTrace trace = trace_of({request_at(0, 4, 2), request_at(1, 4, 2), request_at(2, 4, 2)});
  FixedStepTime step_time;
  TraceSource source(trace);
  int asked = 0;
  const ServeOptions options{.stops_at = [&](const RequestTimes&, bool is_last) { return is_last && ++asked == 2; }};
  const ServingOutcome outcome = serve(source, kOneAtATime, step_time, options);
  EXPECT_TRUE(outcome.is_stopped);
  EXPECT_EQ(outcome.requests.size(), 2U);
}

/// Users who think for given seconds before each of their questions, 4 tokens of prompt, answers of given lengths.
class Users : public RequestSource {
 public:
  struct Question {
    double thinking = 0;  // s, after the answer before
    std::int64_t output = 1;
  };
  /// @param first  all asked at 0  @param next  by whoever has an answer first
  Users(std::vector<std::int64_t> first, std::vector<Question> next) : next_(std::move(next)) {
    for (const std::int64_t output : first) due_.emplace(Picoseconds{0}, output);
  }
  [[nodiscard]] std::optional<Picoseconds> next_arrival() const override {
    return due_.empty() ? std::nullopt : std::optional(due_.begin()->first);
  }
  [[nodiscard]] Request take() override {
    const auto [at, output] = *due_.begin();
    due_.erase(due_.begin());
    return request_at(to_seconds(at), 4, output);
  }
  void on_finish(Picoseconds now) override {
    if (asked_ == next_.size()) return;
    due_.emplace(now + from_seconds(next_[asked_].thinking), next_[asked_].output);
    ++asked_;
  }
  [[nodiscard]] bool reacts_to_finishes() const override { return asked_ < next_.size(); }

 private:
  std::multimap<Picoseconds, std::int64_t> due_;
  std::vector<Question> next_;
  std::size_t asked_ = 0;
};

// Steps of 10 ms. Two answers of 100 tokens and one of 2, dealt round: 0 and 2 on engine 0, 1 on engine 1. The third user has the answer
// at 20 ms and asks at 25 ms: on engine 1, in the step that begins at 30 ms. Its second question, at 40 + 5 ms, goes to engine 0.
TEST(FleetRun, ARunOfStepsEndsWhenAnotherEnginesUserAsksAgain) {
  const EngineSettings engine{.num_blocks = 2000, .max_num_seqs = 8, .max_num_batched_tokens = 4096};
  FixedStepTime step_time;
  Users users({100, 100, 2}, {{0.005, 1}, {0.005, 1}});
  EXPECT_EQ(milliseconds_to_the_end(serve(users, {.engine = engine, .replicas = 2}, step_time)),
            (std::vector<double>{1000, 1000, 20, 40, 60}));
}

// The first user answered at 10 ms thinks until 110 ms, the second, answered at 30 ms, until 40 ms only.
TEST(FleetRun, WhoThinksShortlyNeedNotWaitForWhoThinksLong) {
  FixedStepTime step_time;
  Users users({1, 3}, {{0.1, 1}, {0.01, 1}});
  EXPECT_EQ(milliseconds_to_the_end(serve(users, {.num_blocks = 100}, step_time)),
            (std::vector<double>{10, 30, 50, 120}));
}

TEST(FleetRun, ClosedLoopsThroughFleetsEqualOneStepAfterAnother) {
  const EngineSettings engine{.num_blocks = 90, .max_num_seqs = 6, .max_num_batched_tokens = 128};
  const Fleet fleets[] = {
      {.engine = engine},
      {.engine = engine, .replicas = 2},
      {.engine = engine, .replicas = 3, .routing = Routing::least_loaded},
      {.engine = engine, .replicas = 2, .prefill_replicas = 1, .transfer_bandwidth = 10e9, .bytes_per_token = 1e5},
      {.engine = engine, .replicas = 1, .prefill_replicas = 2, .transfer_bandwidth = 10e9, .bytes_per_token = 1e5},
  };
  const SyntheticWorkload workload{.arrivals = ArrivalKind::closed_loop,
                                   .users = 9,
                                   .think_seconds = 0.02,
                                   .input = {.kind = LengthDistribution::Kind::uniform, .low = 1, .high = 200},
                                   .output = {.kind = LengthDistribution::Kind::uniform, .low = 1, .high = 300},
                                   .num_requests = 80};
  LinearStepTime step_time;
  for (const Fleet& fleet : fleets) {
    const auto requests = [&](std::int64_t max_steps_at_once) {
      const auto source = draw_requests(workload, 16, 7);
      return serve(*source, fleet, step_time, {.shared_block_tokens = 16, .max_steps_at_once = max_steps_at_once})
          .requests;
    };
    const std::vector<RequestTimes> skipping = requests(1'000'000), stepping = requests(1);
    ASSERT_EQ(skipping.size(), 80U);
    for (std::size_t i = 0; i < skipping.size(); ++i) {
      EXPECT_EQ(skipping[i].queued, stepping[i].queued) << fleet.replicas << " " << fleet.prefill_replicas << " " << i;
      EXPECT_EQ(skipping[i].scheduled, stepping[i].scheduled);
      EXPECT_EQ(skipping[i].first_token, stepping[i].first_token);
      EXPECT_EQ(skipping[i].last_token, stepping[i].last_token);
    }
  }
}

/// Every step 1,000 s.
class DaysStepTime : public StepTime {
 public:
  Picoseconds duration(const StepShape& /*shape*/) override { return from_seconds(1000); }
};

// 8,999 steps end before 9e6 s, which picoseconds in 64 bits hold, 9,001 behind it. In one run or step by step.
TEST(ServingRun, AWorkloadThatOutlastsSimulatedTimeIsRefused) {
  DaysStepTime step_time;
  for (const std::int64_t most_steps : {1'000'000, 1}) {
    for (const std::int64_t output : {8999, 9001}) {
      const RequestTrace trace = trace_of({request_at(0, 4, output)});
      TraceSource source(trace);
      const auto run = [&] {
        return serve(source, {.num_blocks = 1000}, step_time, {.max_steps_at_once = most_steps}).makespan;
      };
      if (output == 8999) {
        EXPECT_EQ(run(), from_seconds(8.999e6));
      } else {
        EXPECT_THROW((void)run(), InputError);
      }
    }
  }
}

/// 10 us a token of context or prompt.
class GrowingStepTime : public StepTime {
 public:
  Picoseconds duration(const StepShape& shape) override {
    return Picoseconds{10'000'000} * (shape.num_tokens() - shape.num_decodes + shape.decode_kv_tokens);
  }
};

// Behind 100 tokens of prompt, token i comes 10 x (100 + i) us after the one before: 1.01 to 11 ms, all in one run of steps. After s
// seconds the context c is (c^2 - 100^2) / 2 x 10 us = s, so its mean over the first second is 317, over the sixth 1,053. Pages of 16.
TEST(ServingRun, StepsOfOneRunAreAsLongAsTheyAre) {
  const RequestTrace trace = trace_of({request_at(0, 100, 1001)});
  GrowingStepTime step_time;
  TraceSource source(trace);
  const ServingOutcome outcome = serve(source, {.num_blocks = 100}, step_time, {.most_gaps_kept = 1000});
  EXPECT_NEAR(outcome.gaps.quantile(0), 1.01e-3, 0.003e-3);
  EXPECT_NEAR(outcome.gaps.quantile(0.5), 6.005e-3, 0.015e-3);
  EXPECT_NEAR(outcome.gaps.max(), 11e-3, 0.011e-3);
  EXPECT_NEAR(outcome.gaps.mean(), 6.005e-3, 1e-9);
  ASSERT_EQ(outcome.kept_gaps.size(), 1000U);
  double sum = 0;
  for (const TokenGap& gap : outcome.kept_gaps) {
    EXPECT_NEAR(gap.seconds, 1e-5 * static_cast<double>(100 + gap.token), gap.seconds * 2e-3) << gap.token;
    sum += gap.seconds;
  }
  EXPECT_NEAR(sum, 6.005, 1e-9);
  EXPECT_NEAR(outcome.series.intervals()[0].used_tokens, 317, 3);
  EXPECT_NEAR(outcome.series.intervals()[5].used_tokens, 1053, 3);
  EXPECT_NEAR(outcome.series.intervals()[5].used_blocks, 1053.0 / 16, 1);
  EXPECT_NEAR(outcome.series.intervals()[0].used_blocks, 317.0 / 16, 1);
}

// Steps of 10 ms; request 1's prompt has one to itself in the middle, so one token of request 0 comes after 20 ms. The 98 gaps
// around it are
// 10 ms, whether they are one run or many.
TEST(ServingRun, APromptOfAnotherDelaysOneTokenOnly) {
  const RequestTrace trace = trace_of({request_at(0, 4, 100), request_at(0.205, 4, 1)});
  FixedStepTime step_time;
  TraceSource source(trace);
  const EngineSettings engine{.num_blocks = 100, .reservation = Reservation::estimated_output, .prefill_first = true};
  const ServingOutcome outcome = serve(source, engine, step_time);
  EXPECT_NEAR(to_seconds(outcome.requests[0].longest_gap), 0.020, 1e-9);
  EXPECT_EQ(outcome.gaps.count(), 99);
  EXPECT_NEAR(outcome.gaps.quantile(0.98), 0.010, 0.00002);
  EXPECT_NEAR(outcome.gaps.quantile(1), 0.020, 0.00004);
}

/// 1 ms a step and 1 ms a token that the policy compresses in it.
class FlushingStepTime : public StepTime {
 public:
  Picoseconds duration(const StepShape& shape) override {
    return from_seconds(1e-3 * static_cast<double>(1 + shape.compressed_tokens));
  }
};

// Keys are quantized in flushes of 4 (a residual window as KIVI's). A prompt of 5 flushes when the context reaches 8, 12, 16: at tokens 3,
// 7, 11 after the first; a prompt of 6 one token earlier. A flush takes 5 ms, every other step 1 ms.
TEST(ServingRun, FlushesAreSpikesBetweenTokensWhosePhaseIsThePrompts) {
  for (const std::int64_t prompt : {5, 6}) {
    EngineSettings engine{.num_blocks = 100};
    engine.growth.interval = 4;
    const RequestTrace trace = trace_of({request_at(0, prompt, 12)});
    FlushingStepTime step_time;
    TraceSource source(trace);
    const ServingOutcome outcome = serve(source, engine, step_time, {.most_gaps_kept = 100});
    ASSERT_EQ(outcome.kept_gaps.size(), 11U);
    for (const TokenGap& gap : outcome.kept_gaps) {
      const bool is_flush = (prompt + gap.token) % 4 == 0;
      EXPECT_NEAR(gap.seconds, is_flush ? 5e-3 : 1e-3, 1e-9) << prompt << " " << gap.token;
    }
    EXPECT_NEAR(outcome.gaps.max(), 5e-3, 1e-9);
  }
}

}  // namespace
}  // namespace kvtide::serving

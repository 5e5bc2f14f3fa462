#include "serving/workload.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "base/error.h"

namespace kvtide::serving {
namespace {

struct Gaps {
  double mean = 0, cv = 0;
};

Gaps gaps_of(const SyntheticWorkload& workload) {
  const auto source = draw_requests(workload, 16, 7);
  double last = 0, sum = 0, squares = 0;
  for (std::int64_t i = 0; i < workload.num_requests; ++i) {
    const double now = to_seconds(source->take().arrival);
    sum += now - last;
    squares += (now - last) * (now - last);
    last = now;
  }
  EXPECT_FALSE(source->next_arrival().has_value());
  const auto n = static_cast<double>(workload.num_requests);
  const double mean = sum / n;
  return {mean, std::sqrt(squares / n - mean * mean) / mean};
}

// 20,000 draws: the standard error of the mean gap is cv / 141 of it.
TEST(Workload, GapsHaveTheirMeanAndVariation) {
  SyntheticWorkload workload{.rate = 4, .num_requests = 20'000};
  EXPECT_NEAR(gaps_of(workload).mean, 0.25, 0.25 * 3 / 141);
  EXPECT_NEAR(gaps_of(workload).cv, 1, 0.05);
  workload.arrivals = ArrivalKind::gamma;
  for (const double cv : {0.5, 2.0}) {
    workload.cv = cv;
    EXPECT_NEAR(gaps_of(workload).mean, 0.25, 0.25 * 3 * cv / 141) << cv;
    EXPECT_NEAR(gaps_of(workload).cv, cv, 0.1 * cv) << cv;
  }
}

// From 1 to 9 a second over n requests, request i at rate 1 + 8 i / n: the mean gap is ln(9) / 8 s.
TEST(Workload, ARampSpeedsUp) {
  const SyntheticWorkload workload{.arrivals = ArrivalKind::ramp, .rate = 1, .end_rate = 9, .num_requests = 20'000};
  EXPECT_NEAR(gaps_of(workload).mean, std::log(9.0) / 8, 0.01);
}

TEST(Workload, ClosedLoopsWaitForTheirAnswers) {
  const auto source = draw_requests({.arrivals = ArrivalKind::closed_loop, .users = 2, .num_requests = 3}, 16, 1);
  EXPECT_EQ(source->next_arrival()->count(), 0);
  (void)source->take();
  (void)source->take();
  EXPECT_FALSE(source->next_arrival().has_value());  // both users read
  source->on_finish(Picoseconds{500});
  EXPECT_EQ(source->next_arrival()->count(), 500);
  (void)source->take();
  source->on_finish(Picoseconds{700});
  EXPECT_FALSE(source->next_arrival().has_value());  // three requests were asked for
}

TEST(Workload, LengthsHaveTheirMean) {
  RandomStream random(3, "lengths");
  const LengthDistribution lognormal{.kind = LengthDistribution::Kind::lognormal, .mean = 1000, .cv = 1};
  const LengthDistribution uniform{.kind = LengthDistribution::Kind::uniform, .low = 800, .high = 1200};
  double sum = 0, flat = 0;
  for (int i = 0; i < 20'000; ++i) {
    sum += static_cast<double>(lognormal.draw(random));
    const std::int64_t length = uniform.draw(random);
    EXPECT_GE(length, 800);
    EXPECT_LE(length, 1200);
    flat += static_cast<double>(length);
  }
  EXPECT_NEAR(sum / 20'000, 1000, 25);
  EXPECT_NEAR(flat / 20'000, 1000, 3);
}

// 48 of 100 prompt tokens are 3 shared blocks of 16; half of the requests have them.
TEST(Workload, PrefixesAreSharedByTheirShare) {
  SyntheticWorkload workload{.num_requests = 4000};
  workload.input.mean = 100;
  workload.prefixes = {{.tokens = 60, .share = 0.5}};
  const auto source = draw_requests(workload, 16, 2);
  int shared = 0;
  for (int i = 0; i < 4000; ++i) {
    const Request request = source->take();
    if (request.shared_blocks.empty()) continue;
    EXPECT_EQ(request.shared_blocks.size(), 3U);
    ++shared;
  }
  EXPECT_NEAR(shared, 2000, 100);
}

// The same draws: what was cut away shares nothing beyond the model's 32 tokens, two blocks of 16.
TEST(Workload, NoPrefixIsNamedBeyondTheModelsLength) {
  SyntheticWorkload workload{.num_requests = 10};
  workload.input.mean = 100;
  workload.prefixes = {{.tokens = 60, .share = 1}};
  const auto whole = draw_requests(workload, 16, 2), cut = draw_requests(workload, 16, 2, 32);
  EXPECT_EQ(whole->take().shared_blocks.size(), 3U);
  EXPECT_EQ(cut->take().shared_blocks.size(), 2U);
}

TEST(Workload, PrioritiesComeByTheirShareAndTheRestHasNone) {
  SyntheticWorkload workload{.num_requests = 4000};
  workload.priorities = {{.priority = -2, .share = 0.25}, {.priority = 7, .share = 0.5}};
  const auto source = draw_requests(workload, 16, 2);
  std::map<std::int64_t, int> counts;
  for (int i = 0; i < 4000; ++i) ++counts[source->take().priority];
  EXPECT_EQ(counts.size(), 3U);
  EXPECT_NEAR(counts[-2], 1000, 5 * std::sqrt(4000 * 0.25 * 0.75));
  EXPECT_NEAR(counts[7], 2000, 5 * std::sqrt(4000 * 0.5 * 0.5));
  EXPECT_NEAR(counts[0], 1000, 5 * std::sqrt(4000 * 0.25 * 0.75));
}

// Prompts of 80 in a model of 100: outputs beyond 20 are left out, with their times of arrival. An output of 100 leaves no room for a
// prompt, so truncating leaves it out, too.
TEST(Workload, DrawnRequestsThatAreTooLongAreLeftOut) {
  SyntheticWorkload workload{.num_requests = 200};
  workload.input.mean = 80;
  workload.output = {.kind = LengthDistribution::Kind::uniform, .low = 1, .high = 150};
  for (const LongRequests policy : {LongRequests::drop, LongRequests::truncate}) {
    const auto all = draw_requests(workload, 16, 3), some = draw_requests(workload, 16, 3, 100, policy);
    std::int64_t dropped = 0;
    while (all->next_arrival()) {
      const Request request = all->take();
      if (request.output_tokens > (policy == LongRequests::drop ? 20 : 99)) {
        ++dropped;
        continue;
      }
      const Request kept = some->take();
      EXPECT_EQ(kept.arrival, request.arrival);
      EXPECT_EQ(kept.output_tokens, request.output_tokens);
    }
    EXPECT_FALSE(some->next_arrival());
    EXPECT_EQ(some->num_dropped(), dropped);
    EXPECT_GT(dropped, 0);
  }
}

// Two users, ten requests: who would have asked what is left out asks what follows, so both have something to ask until the end.
TEST(Workload, UsersOfAClosedLoopAskWhatFollows) {
  SyntheticWorkload workload{.arrivals = ArrivalKind::closed_loop, .users = 2, .num_requests = 10};
  workload.input.mean = 80;
  workload.output = {.kind = LengthDistribution::Kind::uniform, .low = 1, .high = 40};
  const auto source = draw_requests(workload, 16, 3, 100, LongRequests::drop);
  std::int64_t taken = 0;
  for (; source->next_arrival(); ++taken) {
    EXPECT_LE(source->take().output_tokens, 20);
    source->on_finish(Picoseconds{0});
  }
  EXPECT_GT(taken, 0);
  EXPECT_EQ(taken + source->num_dropped(), 10);
}

// Field case H4 for drawn requests, which stand in no line: ten of 80 + 50.
TEST(LongRequests, DrawnOnesAreRefusedWithTheirNumberAndTheLargestLength) {
  SyntheticWorkload workload{.num_requests = 10};
  workload.input.mean = 80;
  workload.output.mean = 50;
  EXPECT_NO_THROW(check_lengths(workload, 3, 130));
  try {
    check_lengths(workload, 3, 129);
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("workload: 10 of 10 requests"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("130"), std::string::npos) << error.what();
  }
}

// 80 + 50 tokens of a model of 100: the prompt loses 30. An output of 200 is cut to leave one prompt token.
TEST(CutSource, CutsThePromptFirst) {
  RequestTrace trace;
  trace.requests.push_back({.input_tokens = 80, .output_tokens = 50, .shared_blocks = {}});
  trace.requests.push_back({.input_tokens = 80, .output_tokens = 200, .shared_blocks = {}});
  trace.requests.push_back({.input_tokens = 50, .output_tokens = 50, .shared_blocks = {}});
  TraceSource all(trace);
  CutSource source(all, 100);
  EXPECT_EQ(source.take().input_tokens, 50);
  const Request second = source.take();
  EXPECT_EQ(second.input_tokens, 1);
  EXPECT_EQ(second.output_tokens, 99);
  EXPECT_EQ(source.take().input_tokens, 50);
  EXPECT_EQ(source.num_cut(), 2);
}

// Field case H4 (microsoft/vidur#60).
TEST(LongRequests, AreRefusedCutOrDroppedAndCounted) {
  RequestTrace trace;
  for (const auto& [input, output] :
       {std::pair{100, 10}, std::pair{990, 20}, std::pair{3000, 5}, std::pair{10, 1000}}) {
    trace.requests.push_back({.input_tokens = input,
                              .output_tokens = output,
                              .shared_blocks = {},
                              .line = static_cast<std::int64_t>(trace.requests.size()) + 2});
  }
  try {
    (void)limit_requests(trace, 1000, LongRequests::refuse, "trace.csv");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("trace.csv:3: 3 of 4 requests"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("3005"), std::string::npos) << error.what();
  }
  const LimitedTrace cut = limit_requests(trace, 1000, LongRequests::truncate, "trace.csv");
  EXPECT_EQ(cut.truncated, 2);
  EXPECT_EQ(cut.dropped, 1);  // its output alone fills the model
  EXPECT_EQ(cut.trace.requests[1].input_tokens, 980);
  const LimitedTrace dropped = limit_requests(trace, 1000, LongRequests::drop, "trace.csv");
  EXPECT_EQ(dropped.dropped, 3);
  EXPECT_EQ(dropped.trace.requests.size(), 1U);
  EXPECT_EQ(limit_requests(trace, 3005, LongRequests::refuse, "trace.csv").dropped, 0);  // exactly the limit fits
}

}  // namespace
}  // namespace kvtide::serving

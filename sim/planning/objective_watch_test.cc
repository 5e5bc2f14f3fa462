#include "planning/objective_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvtide::planning {
namespace {

using testing::HasSubstr;

/// So many requests of two tokens, 1 ms steps; `late` of them wait a second for the first token.
Experience watched(std::int64_t count, std::int64_t late, bool* was_stopped = nullptr, double objective = 0.5) {
  const std::vector<serving::Request> requests(static_cast<std::size_t>(count),
                                               {.input_tokens = 1, .output_tokens = 2, .shared_blocks = {}});
  const std::vector<Objective> objectives{{.metric = Metric::ttft, .percentile = 95, .seconds = objective}};
  ObjectiveWatch watch(objectives, requests, 0);
  const serving::ServeOptions options = watch.options(0);
  bool is_stopped = false;
  for (std::int64_t i = 0; i < count && !is_stopped; ++i) {
    serving::RequestTimes times;
    times.first_token = from_seconds(i < late ? 1 : 0.1);
    times.last_token = times.first_token + from_seconds(1e-3);
    times.output_tokens = 2;
    is_stopped = options.stops_at(times, false);
    if (!is_stopped) is_stopped = options.stops_at(times, true);
    options.on_request(times);
  }
  watch.add(serving::ServingOutcome());
  if (was_stopped != nullptr) *was_stopped = is_stopped;
  return watch.experience();
}

// Of 101 requests the 95th percentile is number 95 of 0..100: five late ones are 96..100, the sixth is 95 itself.
TEST(ObjectiveWatch, BreaksWithTheRequestThatMakesThePercentileLate) {
  bool was_stopped = false;
  const Experience good = watched(101, 5, &was_stopped);
  EXPECT_TRUE(good.is_good());
  EXPECT_FALSE(was_stopped);
  EXPECT_DOUBLE_EQ(good.ttft.p95, 0.1);
  const Experience broken = watched(101, 6, &was_stopped);
  EXPECT_FALSE(broken.is_good());
  EXPECT_TRUE(was_stopped);
  EXPECT_THAT(broken.broken, HasSubstr("ttft_p95 over 500 ms: 6 of 101 requests are late, allowed 5"));
}

// Three digits of 99.94 are 99.9; 99.96 would be 100.
TEST(MillisecondsText, HasThreeDigitsOrWholeOnes) {
  EXPECT_EQ(milliseconds_text(2.5e-3), "2.5");
  EXPECT_EQ(milliseconds_text(62.54e-3), "62.5");
  EXPECT_EQ(milliseconds_text(99.94e-3), "99.9");
  EXPECT_EQ(milliseconds_text(99.96e-3), "100");
  EXPECT_EQ(milliseconds_text(9.3212), "9321");
  EXPECT_EQ(milliseconds_text(0), "0");
}

TEST(ObjectiveWatch, SaysTheObjectiveAsItWasWritten) {
  EXPECT_THAT(watched(101, 101, nullptr, 62.5e-3).broken, HasSubstr("ttft_p95 over 62.5 ms:"));
}

// Of 100 the percentile lies at 94.05, between numbers 94 and 95. With five late ones number 95 is the first of them: 0.1 + 0.05 x 0.9 s
// = 0.145 s keeps the objective; the sixth makes number 94 late.
TEST(ObjectiveWatch, BetweenTwoRequestsThePercentileDecides) {
  EXPECT_NEAR(watched(100, 5).ttft.p95, 0.145, 1e-9);
  EXPECT_TRUE(watched(100, 5).is_good());
  EXPECT_FALSE(watched(100, 6).is_good());
}

}  // namespace
}  // namespace kvtide::planning

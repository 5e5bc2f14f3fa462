#include "planning/traffic.h"

#include <gtest/gtest.h>

namespace kvtide::planning {
namespace {

/// Eight requests a second apart; request i has 10 (i + 1) prompt tokens and 2 output tokens.
Traffic eight_requests() {
  Traffic traffic;
  for (int i = 0; i < 8; ++i) {
    traffic.trace.requests.push_back(
        {.arrival = from_seconds(i), .input_tokens = 10 * (i + 1), .output_tokens = 2, .shared_blocks = {}});
  }
  traffic.mean_rate = 1;
  return traffic;
}

TEST(ReplicaShare, EveryNthRequestAtTheWantedRate) {
  // 4 /s over all: gaps of 0.25 s; every second request: gaps of 0.5 s.
  const serving::RequestTrace part = replica_share(eight_requests(), 4, 2, 100);
  ASSERT_EQ(part.requests.size(), 4U);
  EXPECT_EQ(part.requests[1].input_tokens, 30);
  EXPECT_EQ(part.requests[0].arrival, Picoseconds{0});
  EXPECT_EQ(part.requests[1].arrival, from_seconds(0.5));
  EXPECT_EQ(part.requests[3].arrival, from_seconds(1.5));
}

TEST(ReplicaShare, ASampleIsTheNeighboursWithMostTokensASecond) {
  // Prompts grow: the last three, 60, 70 and 80 tokens.
  const serving::RequestTrace part = replica_share(eight_requests(), 1, 1, 3);
  ASSERT_EQ(part.requests.size(), 3U);
  EXPECT_EQ(part.requests[0].input_tokens, 60);
  EXPECT_EQ(part.requests[2].input_tokens, 80);
  EXPECT_EQ(part.requests[2].arrival, from_seconds(2));
}

TEST(ReplicaShare, MoreReplicasThanRequestsLeaveOne) {
  EXPECT_EQ(replica_share(eight_requests(), 1, 100, 3).requests.size(), 1U);
}

// 4 /s over all: request 1 comes 0.25 s after the first, then every second one 0.5 s apart: requests 1, 3, 5, 7.
TEST(ShareSource, DealsTheWholeTrafficRound) {
  const Traffic traffic = eight_requests();
  ShareSource source(traffic, 4, 2, 1);
  std::vector<std::int64_t> prompts;
  std::vector<double> times;
  while (source.next_arrival()) {
    const serving::Request request = source.take();
    prompts.push_back(request.input_tokens);
    times.push_back(to_seconds(request.arrival));
  }
  EXPECT_EQ(prompts, (std::vector<std::int64_t>{20, 40, 60, 80}));
  EXPECT_EQ(times, (std::vector<double>{0.25, 0.75, 1.25, 1.75}));
  EXPECT_FALSE(ShareSource(traffic, 4, 20, 8).next_arrival());  // a ninth replica gets nothing
}

TEST(AloneSource, SendsARequestOnceTheOneBeforeIsAnswered) {
  Traffic traffic = eight_requests();
  for (serving::Request& request : traffic.trace.requests) request.shared_blocks = {7};
  AloneSource source(traffic.trace.requests);
  for (int i = 0; i < 8; ++i) {
    ASSERT_EQ(source.next_arrival(), from_seconds(100 * i));
    const serving::Request request = source.take();
    EXPECT_EQ(request.input_tokens, 10 * (i + 1));
    EXPECT_EQ(request.arrival, from_seconds(100 * i));
    EXPECT_TRUE(request.shared_blocks.empty());
    EXPECT_FALSE(source.next_arrival());
    source.on_finish(from_seconds(100 * (i + 1)));
  }
  EXPECT_FALSE(source.next_arrival());
}

experiment::ServingSetting drawn(serving::ArrivalKind arrivals) {
  experiment::ServingSetting setting;
  setting.drawn.arrivals = arrivals;
  setting.drawn.rate = 5;
  setting.drawn.end_rate = 15;
  setting.drawn.num_requests = 300;
  setting.rate_scale = 2;
  return setting;
}

// 5 /s twice as fast, whatever the 299 gaps came to. Of a ramp only they tell: 300 requests from 5 to 15 /s take
// 300 / 10 x ln(15 / 5) = 33 s, so about 9.1 /s, twice as fast 18.2; 300 gaps spread it by 1 / sqrt(300) = 6 %.
TEST(Traffic, IsPlannedForTheRateThatWasWrittenNotThatOfItsDraws) {
  const Model model = load_model("smollm2-135m");
  EXPECT_DOUBLE_EQ(load_traffic(drawn(serving::ArrivalKind::poisson), model, 1).mean_rate, 10);
  EXPECT_DOUBLE_EQ(load_traffic(drawn(serving::ArrivalKind::gamma), model, 1).mean_rate, 10);
  EXPECT_NEAR(load_traffic(drawn(serving::ArrivalKind::ramp), model, 1).mean_rate, 18.2, 4);
}

TEST(LongerOutputs, RoundToWholeTokensAndNeverToNone) {
  Traffic traffic = eight_requests();
  EXPECT_EQ(with_longer_outputs(traffic, 1.3).trace.requests[0].output_tokens, 3);  // 2.6
  EXPECT_EQ(with_longer_outputs(traffic, 0.1).trace.requests[0].output_tokens, 1);  // 0.2
  // 10 + 3 .. 80 + 3
  EXPECT_EQ(with_longer_outputs(traffic, 1.3).longest.total, 83);
  EXPECT_EQ(with_longer_outputs(traffic, 1.3).longest.prompt, 80);
}

}  // namespace
}  // namespace kvtide::planning

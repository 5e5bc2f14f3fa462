#include "loss/redistribution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "loss/hand_made_heads.h"
#include "loss/loss_meter.h"

namespace kvtide::loss {
namespace {

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// Gains of one head by receiver.
std::vector<double> gained(const HeadReference& reference, const kv::HeadCache& cache, const Surroundings& around) {
  kv::LayerCache layer;
  layer.heads.push_back(cache);
  return redistribution({reference}, layer, around);
}

// Weights 0.4, 0.3, 0.2, 0.1 by logits of their logarithms; the last is evicted: each kept one grows by 1/0.9, gains 0.4/9 (the sink),
// 0.3/9 (elsewhere), 0.2/9 (beside the gap), together the 0.1 that was lost.
TEST(Redistribution, KeptPositionsGainInProportion) {
  kv::HeadTensors head = empty_head(4, 1, 1);
  head.q_post(0, 0) = 1;
  for (int j = 0; j < 4; ++j) head.k_post(j, 0) = std::log(0.4F - 0.1F * static_cast<float>(j));
  const HeadReference reference = make_head_reference(head, {0, 100});
  const std::vector<double> gains = gained(reference, evict(head, [](std::int64_t j) { return j < 3; }),
                                           {.sinks = 1, .window = 1, .num_compressed = 4, .reach = 1});
  EXPECT_NEAR(gains[static_cast<std::size_t>(Receiver::sinks)], 0.4 / 9, 1e-7);
  EXPECT_NEAR(gains[static_cast<std::size_t>(Receiver::elsewhere)], 0.3 / 9, 1e-7);
  EXPECT_NEAR(gains[static_cast<std::size_t>(Receiver::beside_gap)], 0.2 / 9, 1e-7);
  EXPECT_EQ(gains[static_cast<std::size_t>(Receiver::window)], 0);
}

// Softmax weights sum to 1 before and after, whatever the policy.
TEST(Redistribution, GainsAreWhatWasLost) {
  const kv::HeadTensors head = white_head(60, 5, 8);
  const HeadReference reference = make_head_reference(head, {0, 100});
  for (const kv::HeadCache& cache : {evict(head, [](std::int64_t j) { return j % 3 != 0; }),
                                     pool(head, 8, 40, 4, std::log(4.0F)), round_rows(head, 4)}) {
    const HeadLoss loss = measure_head_in_float64(reference, cache);
    EXPECT_NEAR(sum(gained(reference, cache, {.num_compressed = 60})), sum(loss.lost_mass), 1e-9);
  }
  EXPECT_EQ(sum(gained(reference, identity_cache(head), {.num_compressed = 60})), 0);
}

// Uniform attention over 20 positions, 8..11 evicted: m = 0.2, each kept position gains 0.05 / 0.8 - 0.05 = 0.0125.
// Sinks 0, 1; beside the gap within 2: 6, 7, 12, 13; window 14, 15; later 16..19; elsewhere 2..5.
TEST(Redistribution, ReceiversByPlace) {
  const kv::HeadTensors head = uniform_head(20, 4);
  kv::LayerCache cache;
  cache.heads.push_back(evict(head, [](std::int64_t j) { return j < 8 || j > 11; }));
  const std::vector<double> gained = redistribution({make_head_reference(head, {0, 100})}, cache,
                                                    {.sinks = 2, .window = 2, .num_compressed = 16, .reach = 2});
  const auto of = [&](Receiver receiver) { return gained[static_cast<std::size_t>(receiver)]; };
  EXPECT_NEAR(of(Receiver::sinks), 2 * 0.0125, 1e-9);
  EXPECT_NEAR(of(Receiver::beside_gap), 4 * 0.0125, 1e-9);
  EXPECT_NEAR(of(Receiver::elsewhere), 4 * 0.0125, 1e-9);
  EXPECT_NEAR(of(Receiver::window), 2 * 0.0125, 1e-9);
  EXPECT_NEAR(of(Receiver::later), 4 * 0.0125, 1e-9);
}

}  // namespace
}  // namespace kvtide::loss

#include "loss/eviction_loss.h"

#include <gtest/gtest.h>

#include "loss/hand_made_heads.h"
#include "loss/head_comparison.h"
#include "loss/loss_meter.h"

namespace kvtide::loss {
namespace {

kv::HeadCache evict_runs(const kv::HeadTensors& head, const kv::PositionRuns& runs) {
  return evict(head, [&](std::int64_t j) { return !kv::contains(runs, j); });
}

double sum(const std::vector<double>& values) {
  double total = 0;
  for (const double value : values) total += value;
  return total;
}

/// The general way: a cache, compared entry by entry.
void expect_as_measured(const kv::HeadTensors& head, const HeadReference& reference, EvictionLoss& loss,
                        const kv::PositionRuns& runs, double tolerance) {
  loss.evict(runs);
  const HeadLoss measured = measure_head_in_float64(reference, evict_runs(head, runs));
  EXPECT_NEAR(loss.lost_mass(), sum(measured.lost_mass), tolerance);
  EXPECT_NEAR(loss.output_error(), measured.output_error, tolerance * std::max(1.0, measured.output_error));
}

// Four keys of equal score, values 1, 1, 3, 3; o = 2. Without the last two ohat = 1: m = 1/2, E = 1/2. Without the
// first ohat = 7/3: m = 1/4, E = 1/6.
TEST(EvictionLoss, FourEqualKeys) {
  kv::HeadTensors head = empty_head(4, 1, 1);
  head.v << 1, 1, 3, 3;
  const HeadReference reference = make_head_reference(head, {0, 4});
  EvictionLoss loss(reference, true);
  EXPECT_EQ(loss.lost_mass(), 0);
  EXPECT_EQ(loss.output_error(), 0);
  loss.evict({{2, 4}});
  EXPECT_NEAR(loss.lost_mass(), 0.5, 1e-15);
  EXPECT_NEAR(loss.output_error(), 0.5, 1e-15);
  loss.evict({{0, 1}});
  EXPECT_NEAR(loss.lost_mass(), 0.25, 1e-15);
  EXPECT_NEAR(loss.output_error(), 1.0 / 6, 1e-15);
  loss.evict({});
  EXPECT_NEAR(loss.output_error(), 0, 1e-15);
}

// Every set asked after another one, so that changes add up: grids moved by one token, sets far apart, single tokens.
TEST(EvictionLoss, EqualsTheComparisonOfCaches) {
  const kv::HeadTensors head = white_head(331, 3, 16);
  const HeadReference reference = make_head_reference(head, {0, 1000});
  EvictionLoss loss(reference, true);
  for (const std::int64_t block_size : {1, 5, 16, 40}) {
    for (std::int64_t shift = 0; shift <= 2 * block_size; ++shift) {
      kv::PositionRuns runs;
      for (std::int64_t begin = block_size - shift; begin < 331; begin += 2 * block_size) {
        if (begin + block_size > 0) {
          runs.push_back({std::max<std::int64_t>(0, begin), std::min<std::int64_t>(331, begin + block_size)});
        }
      }
      expect_as_measured(head, reference, loss, runs, 1e-11);
    }
  }
}

// Queries inside the sequence see no later position: what is evicted behind them costs them nothing.
TEST(EvictionLoss, RowsLoseOnlyWhatTheySee) {
  kv::HeadTensors head = white_head(100, 4, 8);
  head.q_positions = {10, 49, 50, 99};
  const HeadReference reference = make_head_reference(head, {0, 99});
  EvictionLoss loss(reference, true);
  for (const kv::PositionRuns& runs : {kv::PositionRuns{{50, 60}}, {{0, 5}, {49, 51}}, {{11, 99}}}) {
    expect_as_measured(head, reference, loss, runs, 1e-11);
  }
}

// One key draws all but e^-40 = 4e-18 of the attention. Without it 1 - m has no digit left, and the output is the mean
// of the rest.
TEST(EvictionLoss, LosingNearlyAllAttentionKeepsItsDigits) {
  for (const float score : {9.0F, 12.0F, 40.0F}) {
    kv::HeadTensors head = empty_head(64, 1, 4);
    RandomStream random(3, "test.eviction_loss");
    fill_normal(head.v, random);
    head.q_post(0, 0) = 1;
    head.attention_scale = 1;
    head.k_post(20, 0) = score;
    const HeadReference reference = make_head_reference(head, {0, 64});
    EvictionLoss loss(reference, true);
    for (const kv::PositionRuns& runs : {kv::PositionRuns{{20, 21}}, {{16, 32}}, {{0, 63}}}) {
      expect_as_measured(head, reference, loss, runs, 1e-7);
    }
  }
}

// With nothing left the output is 0: E = |o - 0| / |o| = 1.
TEST(EvictionLoss, EvictingEverythingLosesEverything) {
  const kv::HeadTensors head = white_head(40, 2, 8);
  const HeadReference reference = make_head_reference(head, {0, 100});
  EvictionLoss loss(reference, true);
  loss.evict({{0, 40}});
  EXPECT_NEAR(loss.lost_mass(), 1, 1e-12);
  EXPECT_NEAR(loss.output_error(), 1, 1e-12);
}

// 512 rows of 64 channels take 256 KiB a stored sum; 4 MiB hold 16 of them, so that the spacing grows beyond 16.
TEST(EvictionLoss, ManyRowsStayExactWithSumsFurtherApart) {
  const kv::HeadTensors head = white_head(600, 512, 64);
  const HeadReference reference = make_head_reference(head, {0, 2000});
  EvictionLoss loss(reference, true);
  for (const kv::PositionRuns& runs : {kv::PositionRuns{{3, 590}}, {{63, 64}, {65, 300}}}) {
    expect_as_measured(head, reference, loss, runs, 1e-11);
  }
}

TEST(EvictionLoss, WithoutOutputErrorOnlyMassIsFollowed) {
  const kv::HeadTensors head = uniform_head(10, 2);
  const HeadReference reference = make_head_reference(head, {0, 10});
  EvictionLoss loss(reference, false);
  loss.evict({{1, 4}});
  EXPECT_NEAR(loss.lost_mass(), 0.3, 1e-15);  // 3 of 10 equal keys
  EXPECT_TRUE(std::isnan(loss.output_error()));
}

}  // namespace
}  // namespace kvtide::loss

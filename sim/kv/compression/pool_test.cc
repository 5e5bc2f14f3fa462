#include "kv/compression/pool.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kv/testing/random_layer.h"

namespace kvtide::kv {
namespace {

/// `count` equal keys (1, 0, ...; 0, ...) rotated with the given base; head_dim 2 * pairs.
LayerTensors equal_keys(std::int64_t count, std::int64_t pairs, double base) {
  LayerTensors layer = testing::random_layer(1, count, 2 * pairs, 1, base);
  HeadTensors& head = layer[0];
  head.k_pre.setZero();
  head.k_pre.leftCols(pairs).setOnes();
  head.k_post = head.k_pre;
  for (std::int64_t position = 0; position < count; ++position) {
    head.rope.rotate({head.k_post.row(position).data(), static_cast<std::size_t>(2 * pairs)},
                     static_cast<double>(position));
  }
  return layer;
}

EntryTable pooled(const LayerTensors& layer, std::int64_t width, RopeState rope) {
  Compression setting;
  setting.block_size = width;
  setting.sinks = 0;
  setting.window = 0;
  setting.stages = {Pool{width, rope, true}};
  return *compress_layer(setting, layer[0].num_positions(), 1, layer[0].head_dim(), {}, &layer).heads[0].entries;
}

double amplitude(const EntryTable& table, std::int64_t pair, std::int64_t pairs) {
  return std::hypot(table.k(0, pair), table.k(0, pair + pairs));
}

// T7 (loss-metrics.md): the mean of w equal rotated keys has amplitude |sin(w t / 2) / (w sin(t / 2))|:
// (w, t) = (4, 1): 0.4742; (8, 0.1): 0.9740; (8, 2 pi / 8): 0. fp16 rounding allows 5e-4.
TEST(Pool, AfterRopeIsALowPassFilterWithNulls) {
  EXPECT_NEAR(amplitude(pooled(equal_keys(4, 1, 10), 4, RopeState::post), 0, 1), 0.4742, 5e-4);
  // d = 4: pair 1 turns by base^(-1/2); base 100 -> 0.1, base (8 / 2 pi)^2 -> 2 pi / 8.
  EXPECT_NEAR(amplitude(pooled(equal_keys(8, 2, 100), 8, RopeState::post), 1, 2), 0.9740, 5e-4);
  EXPECT_NEAR(amplitude(pooled(equal_keys(8, 2, std::pow(8 / 6.283185307179586, 2)), 8, RopeState::post), 1, 2), 0.0,
              5e-4);
}

// T8: before RoPE the pool sits at its centre c = 3.5 with full amplitude; against it a query at the edge position p =
// 0 would truly see cos((p - c) t): t = 1: cos(3.5) = -0.936, the sign flips.
TEST(Pool, BeforeRopeTurnsToTheCentre) {
  const LayerTensors layer = equal_keys(8, 1, 10);
  const EntryTable table = pooled(layer, 8, RopeState::pre);
  EXPECT_NEAR(amplitude(table, 0, 1), 1.0, 1e-3);
  EXPECT_NEAR(std::atan2(table.k(0, 1), table.k(0, 0)), 3.5 - 6.283185307179586, 1e-3);
  const double truth = table.k.row(0).dot(layer[0].k_post.row(0));
  EXPECT_NEAR(truth, -0.936, 1e-3);
}

// T9: half of a uniform context pooled at w = 8. Without bias the pools hold 1/(1+w) of the attention, with ln w one
// half.
TEST(Pool, MassCorrectionRestoresTheShareOfAPool) {
  for (const bool is_corrected : {false, true}) {
    Compression setting;
    setting.block_size = 64;
    setting.sinks = 64;  // the first block stays exact
    setting.window = 0;
    setting.stages = {Pool{8, RopeState::post, is_corrected}};
    LayerTensors layer = testing::random_layer(1, 128, 4, 2);
    layer[0].k_post.setZero();
    const EntryTable table = *compress_layer(setting, 128, 1, 4, {}, &layer).heads[0].entries;
    double pools = 0;
    double all = 0;
    for (std::size_t entry = 0; entry < table.bias.size(); ++entry) {
      all += std::exp(table.bias[entry]);
      if (entry >= 64) pools += std::exp(table.bias[entry]);
    }
    EXPECT_NEAR(pools / all, is_corrected ? 0.5 : 1.0 / 9, 1e-6);
  }
}

TEST(Pool, PoolsSurvivorsOfAnEvictionAndCountsTheLastShortGroup) {
  Compression setting;
  setting.block_size = 64;
  setting.sinks = 0;
  setting.window = 0;
  Evict tokens;
  tokens.granularity = Granularity::token;
  tokens.keep = 468'750;  // 30 of 64 stay -> 8 entries, the last of 2
  setting.stages = {tokens, Pool{4, RopeState::post, true}};
  std::vector<double> scores(64);
  for (std::size_t position = 0; position < 64; ++position) scores[position] = position % 2 == 0 ? 1.0 : 0.0;
  const LayerTensors layer = testing::random_layer(1, 64, 4, 3);
  const HeadCache head = compress_layer(setting, 64, 1, 4, {scores}, &layer).heads[0];
  ASSERT_EQ(head.entries->k.rows(), 8);
  EXPECT_NEAR(head.entries->bias[0], std::log(4.0), 1e-6);
  EXPECT_NEAR(head.entries->bias[7], std::log(2.0), 1e-6);
  // Entry 0 is the mean of positions 0, 2, 4, 6.
  const RowMatrix mean = (layer[0].v.row(0) + layer[0].v.row(2) + layer[0].v.row(4) + layer[0].v.row(6)) / 4;
  EXPECT_LT((head.entries->v.row(0) - mean).cwiseAbs().maxCoeff(), 2e-3F);
}

}  // namespace
}  // namespace kvtide::kv

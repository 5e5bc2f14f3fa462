#include "kv/compression/low_rank.h"

#include <gtest/gtest.h>

#include "kv/cache_layout.h"
#include "kv/cache_timeline.h"
#include "kv/testing/random_layer.h"

namespace kvtide::kv {
namespace {

Compression low_rank(const LowRank& stage, std::int64_t block_size = 16) {
  Compression setting;
  setting.block_size = block_size;
  setting.sinks = 0;
  setting.window = 0;
  setting.stages = {stage};
  return setting;
}

/// Rows whose K and V span `rank` directions over all heads together.
LayerTensors layer_of_rank(std::int64_t num_heads, std::int64_t num_positions, std::int64_t head_dim,
                           std::int64_t rank) {
  LayerTensors layer = testing::random_layer(num_heads, num_positions, head_dim, 4, 0);
  const LayerTensors factors = testing::random_layer(2, std::max(num_positions, num_heads * head_dim), rank, 9, 0);
  const RowMatrix joint = factors[0].v.topRows(num_positions) * factors[1].v.topRows(num_heads * head_dim).transpose();
  for (std::int64_t head = 0; head < num_heads; ++head) {
    HeadTensors& of_head = layer[static_cast<std::size_t>(head)];
    of_head.k_pre = of_head.k_post = of_head.v = joint.middleCols(head * head_dim, head_dim);
  }
  return layer;
}

// A basis stored once a sequence: 64 positions, 8 channels, rank 2: 64 * 2 coefficients and 2 * 8 of a basis, 2 B each, K and
// V: 576 B. A basis in each of 4 blocks: 64 * 2 + 4 * 2 * 8: 768 B. One that belongs to the model: 512 B.
TEST(LowRank, ScopeDecidesHowOftenTheBasisIsStored) {
  const auto bytes = [](BasisScope scope) {
    const LayerCache cache = compress_layer(low_rank({.rank = 2, .scope = scope}), 64, 1, 8, {}, nullptr);
    return layer_bytes(layer_pools(cache, 16, CacheLayout::per_head)).total;
  };
  EXPECT_EQ(bytes(BasisScope::sequence), 576u);
  EXPECT_EQ(bytes(BasisScope::block), 768u);
  EXPECT_EQ(bytes(BasisScope::model), 512u);
}

TEST(LowRank, RowsOfTheRankComeBack) {
  const LayerTensors layer = layer_of_rank(1, 64, 8, 2);
  const LayerCache cache = compress_layer(low_rank({.rank = 2, .scope = BasisScope::sequence}), 64, 1, 8, {}, &layer);
  EXPECT_TRUE(cache.heads.front().entries->k.isApprox(layer.front().k_post, 2e-3F));  // fp16 factors
  const LayerCache lower = compress_layer(low_rank({.rank = 1, .scope = BasisScope::sequence}), 64, 1, 8, {}, &layer);
  EXPECT_FALSE(lower.heads.front().entries->k.isApprox(layer.front().k_post, 2e-2F));
}

// Two heads whose rows together have rank 2: one coefficient a head is enough when they share them, too few alone.
TEST(LowRank, HeadsTogetherNeedFewerCoefficients) {
  const LayerTensors layer = layer_of_rank(2, 64, 8, 2);
  LowRank stage{.rank = 1, .scope = BasisScope::sequence, .heads = 2};
  const LayerCache together = compress_layer(low_rank(stage), 64, 2, 8, {}, &layer);
  EXPECT_TRUE(together.heads[0].entries->k.isApprox(layer[0].k_post, 2e-3F));
  EXPECT_TRUE(together.heads[1].entries->v.isApprox(layer[1].v, 2e-3F));
  stage.heads = 1;
  const LayerCache alone = compress_layer(low_rank(stage), 64, 2, 8, {}, &layer);
  EXPECT_FALSE(alone.heads[0].entries->k.isApprox(layer[0].k_post, 2e-2F));
}

// Keys before RoPE of rank 2 are exact when stored before it; rotated they have a higher rank.
TEST(LowRank, KeysBeforeRopeKeepTheirRank) {
  LayerTensors layer = layer_of_rank(1, 64, 8, 2);
  HeadTensors& head = layer.front();
  head.rope = Rope{10000};
  for (std::int64_t position = 0; position < 64; ++position) {
    head.rope.rotate({head.k_post.row(position).data(), 8}, static_cast<double>(position));
  }
  LowRank stage{.rank = 2, .scope = BasisScope::sequence, .k_rope = RopeState::pre};
  const LayerCache before = compress_layer(low_rank(stage), 64, 1, 8, {}, &layer);
  EXPECT_TRUE(before.heads.front().entries->k.isApprox(head.k_post, 2e-3F));
  stage.k_rope = RopeState::post;
  const LayerCache after = compress_layer(low_rank(stage), 64, 1, 8, {}, &layer);
  EXPECT_FALSE(after.heads.front().entries->k.isApprox(head.k_post, 2e-2F));
}

// Shares: 8 channels, K 0.25 -> 2, V a whole -> left in fp16.
TEST(LowRank, SharesAreOfTheHeadsChannels) {
  const LowRank stage{.k_share = 250'000, .v_share = 1'000'000, .scope = BasisScope::model};
  EXPECT_EQ(stage.columns(true, 8), 2);
  EXPECT_EQ(stage.columns(false, 8), 8);
  const LayerCache cache = compress_layer(low_rank(stage), 64, 1, 8, {}, nullptr);
  const HeadPools pools = packed_pools(cache.heads.front(), 16);
  EXPECT_EQ(pools.k.front().payload_bytes, 64u * 2 * 2);
  EXPECT_EQ(pools.v.front().payload_bytes, 64u * 8 * 2);
}

TEST(LowRank, HeadsTogetherNeedOnePositionSet) {
  Compression setting = low_rank({.rank = 2, .scope = BasisScope::sequence, .heads = 2});
  setting.stages.insert(setting.stages.begin(), Stage(Evict{}));
  EXPECT_FALSE(contradictions(setting, 8).empty());
  std::get<Evict>(setting.stages.front()).heads = HeadScope::shared;
  EXPECT_TRUE(contradictions(setting, 8).empty());
  EXPECT_FALSE(contradictions(low_rank({.rank = 2, .heads = 2}), 8).empty());  // scope block
}

// ThinK: channel 1 has mean q^2 of 4 and mean k^2 of 1, channel 0 has 1 and 1: half of two channels is channel 1. Stored:
// 8 positions of one key channel and two value channels, 2 B each, and a mask of one byte. Nothing is rebuilt.
TEST(LowRank, ChannelsAreChosenByQueriesAndKeys) {
  HeadTensors head;
  head.k_post = head.k_pre = head.v = RowMatrix::Ones(8, 2);
  head.q_post.resize(8, 2);
  head.q_post.col(0).setConstant(1);
  head.q_post.col(1).setConstant(2);
  for (std::int64_t position = 0; position < 8; ++position) head.q_positions.push_back(position);
  const LayerTensors layer{head};
  const LowRank stage{.k_share = 500000,
                      .v_share = 1000000,
                      .scope = BasisScope::sequence,
                      .keeps_channels = true,
                      .channel_window = 4};
  const LayerCache cache = compress_layer(low_rank(stage, 1), 8, 1, 2, {}, &layer);
  EXPECT_EQ(cache.heads[0].entries->k.col(0), Eigen::VectorXf::Zero(8));
  EXPECT_EQ(cache.heads[0].entries->k.col(1), Eigen::VectorXf::Ones(8));
  EXPECT_EQ(cache.heads[0].entries->v, head.v);
  const std::vector<HeadPools> pools = layer_pools(cache, 1, CacheLayout::per_head);
  EXPECT_EQ(layer_bytes(pools).total, 8u * 2 + 1 + 8 * 4);
  EXPECT_EQ(pools[0].k.front().form.rank, 0);
}

TEST(LowRank, ChannelsBelongToKeysOfOneHead) {
  const auto problems = [](LowRank stage) {
    stage.keeps_channels = true;
    return contradictions(low_rank(stage), 16).size();
  };
  EXPECT_EQ(problems({.k_share = 500000, .v_share = 1000000, .scope = BasisScope::sequence}), 0u);
  EXPECT_GT(problems({.k_share = 500000, .v_share = 500000, .scope = BasisScope::sequence}), 0u);
  EXPECT_GT(problems({.k_share = 500000, .v_share = 1000000, .scope = BasisScope::block}), 0u);
}

/// What a decode step of a model of four layers with one head of 8 channels does for 64 positions in pages of 16.
std::vector<LayerAttention> attention_of(const LowRank& stage) {
  Model model;
  model.num_layers = 4;
  model.num_query_heads = model.num_kv_heads = 1;
  model.head_dim = 8;
  return CacheTimeline({model, low_rank(stage, 1), 16, CacheLayout::per_head, 1}, {}, 64).attention();
}

// xKV: four layers with common coefficients, 2 of K and 4 of V a layer, 8 and 16 together. A layer stores 64 * 2 * 2 B and a
// basis of 8 * 8 * 2 B for K, 64 * 4 * 2 and 16 * 8 * 2 for V; it reads the coefficients of all four and its own bases, and
// rebuilds every row from all of them.
TEST(LowRank, LayersWithCommonCoefficientsReadThemAll) {
  const LowRank stage{.k_share = 250'000, .v_share = 500'000, .scope = BasisScope::sequence, .layers = 4};
  const auto layers = attention_of(stage);
  ASSERT_EQ(layers.size(), 1u);
  const gpu::AttentionTask& task = layers.front().work.tasks.front();
  ASSERT_EQ(task.streams.size(), 2u);
  EXPECT_EQ(task.streams[0].bytes, 4u * 64 * 2 * 2 + 8 * 8 * 2);
  EXPECT_EQ(task.streams[1].bytes, 4u * 64 * 4 * 2 + 16 * 8 * 2);
  EXPECT_EQ(task.reconstruction_macs, 64 * 8 * 8 + 64 * 16 * 8);
}

// Palu: bases belong to the weights; keys are rebuilt from 4 coefficients to be turned, values never are.
TEST(LowRank, ValuesWhoseBasisIsInTheWeightsAreNotRebuilt) {
  const auto layers = attention_of({.k_share = 500'000, .v_share = 500'000, .scope = BasisScope::model});
  const gpu::AttentionTask& task = layers.front().work.tasks.front();
  EXPECT_EQ(task.streams[0].bytes + task.streams[1].bytes, 64u * 4 * 2 * 2);
  EXPECT_EQ(task.reconstruction_macs, 64 * 4 * 8);
}

}  // namespace
}  // namespace kvtide::kv

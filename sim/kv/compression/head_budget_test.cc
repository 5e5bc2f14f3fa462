#include "kv/compression/head_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kv/compression/evict.h"
#include "kv/compression/layer_budget.h"
#include "kv/served_cache.h"

namespace kvtide::kv {
namespace {

using ::testing::ElementsAre;

std::vector<std::int64_t> counts(const HeadTable& table, const HeadRule& rule, PartsPerMillion keep, std::int64_t layer,
                                 std::int64_t num_layers, std::int64_t num_heads, std::int64_t num_positions) {
  std::vector<std::int64_t> result;
  for (const PartsPerMillion of_head : head_keeps(table, rule, keep, layer, num_layers, num_heads, num_positions)) {
    result.push_back(kept_count(num_positions, of_head));
  }
  return result;
}

// 100 positions, half kept, window 10: b = 40, beta 2: 20 of each head in the pool, 2 layers x 2 heads: 80. Scores 3, 1 | 0, 4
// of 8: 30, 10, 0, 40 of the pool, 20 each head's own, 10 the window.
TEST(HeadBudget, PoolComesBackByScoreOverAllLayers) {
  const HeadTable table{2, 2, {3, 1, 0, 4}};
  const HeadRule rule{.beta = 2, .window = 10};
  EXPECT_THAT(counts(table, rule, 500'000, 0, 2, 2, 100), ElementsAre(60, 40));
  EXPECT_THAT(counts(table, rule, 500'000, 1, 2, 2, 100), ElementsAre(30, 70));
}

// beta 1: everything by score; a head without any keeps its window alone. 100 positions, b = 40: 4 heads x 40 = 160, of which a
// score of 7 in 8 is 140: the head has 100, and the 50 that are too many go to nobody.
TEST(HeadBudget, AHeadKeepsNoMoreThanThereIs) {
  const HeadTable table{2, 2, {7, 1, 0, 0}};
  const HeadRule rule{.beta = 1, .window = 10};
  EXPECT_THAT(counts(table, rule, 500'000, 0, 2, 2, 100), ElementsAre(100, 30));
  EXPECT_THAT(counts(table, rule, 500'000, 1, 2, 2, 100), ElementsAre(10, 10));
}

// floor(40 / 1.5) = 26 in the pool, 14 each head's own: 2 heads 52 by 3 : 1 are 39 and 13.
TEST(HeadBudget, PoolIsRoundedDown) {
  EXPECT_THAT(counts({1, 2, {3, 1}}, {.beta = 1.5, .window = 10}, 500'000, 0, 1, 2, 100),
              ElementsAre(10 + 14 + 39, 10 + 14 + 13));
}

// numpy.quantile([0.9, 0.2, 0.5, 0.4], 1 - share): 0.45 at 0.5, 0.35 at 0.75 (index 0.75 between 0.2 and 0.4), 0.9 at 0.
TEST(HeadBudget, WholeHeadsAreThoseAtOrAboveTheQuantile) {
  const HeadTable table{2, 2, {0.9, 0.2, 0.5, 0.4}};
  const auto whole = [&](PartsPerMillion share) {
    std::vector<bool> result;
    for (const std::int64_t layer : {0, 1}) {
      for (const PartsPerMillion keep :
           head_keeps(table, {.keeps_whole_heads = true, .share = share}, 1, layer, 2, 2, 1000)) {
        result.push_back(keep == 1'000'000);
      }
    }
    return result;
  };
  EXPECT_THAT(whole(500'000), ElementsAre(true, false, true, false));
  EXPECT_THAT(whole(750'000), ElementsAre(true, false, true, true));
  EXPECT_THAT(whole(1'000'000), ElementsAre(true, true, true, true));
  EXPECT_THAT(whole(1), ElementsAre(true, false, false, false));
}

// 2 layers x 4 query heads on 2 KV heads: means of pairs.
TEST(HeadBudget, QueryHeadsOfAGroupAreAveraged) {
  const HeadTable table{2, 4, {1, 3, 5, 7, 0, 0, 2, 4}};
  const auto fitted = of_kv_heads(table, 2, 4, 2);
  ASSERT_TRUE(fitted);
  EXPECT_THAT(fitted->scores, ElementsAre(2, 6, 0, 3));
  EXPECT_EQ(of_kv_heads(*fitted, 2, 4, 2), fitted);
  EXPECT_FALSE(of_kv_heads(table, 3, 4, 2));
  EXPECT_FALSE(of_kv_heads(table, 2, 8, 3));
}

// A table of 3 layers for a model of 5: depths 0, 1/4, 1/2, 3/4, 1 are nearest to 0, 1/2 (0.5 rounds up), 1/2, 1, 1; its third head
// is the table's first.
TEST(HeadBudget, AnotherModelTakesTheNearestDepthAndHeadsInTurn) {
  const HeadTable table{3, 2, {1, 0, 0, 1, 1, 1}};
  const HeadRule rule{.keeps_whole_heads = true, .share = 600'000};
  std::vector<std::vector<PartsPerMillion>> layers;
  for (std::int64_t layer = 0; layer < 5; ++layer) layers.push_back(head_keeps(table, rule, 1, layer, 5, 3, 100));
  const std::vector<PartsPerMillion> first{1'000'000, 1, 1'000'000}, second{1, 1'000'000, 1};
  const std::vector<PartsPerMillion> both{1'000'000, 1'000'000, 1'000'000};
  EXPECT_THAT(layers, ElementsAre(first, second, second, both, both));
}

// Every head chooses its own number; what is protected stays in any case.
TEST(HeadBudget, HeadsChooseTheirOwnNumber) {
  const Evict stage{.granularity = Granularity::token, .head_keep = {250'000, 1}, .threshold = 0.5};
  const auto stays = choose_kept_of_layer(stage, {{1, 4, 3, 2}, {1, 4, 3, 2}}, {{0, 0, 0, 0}, {1, 0, 0, 1}});
  EXPECT_EQ(stays, (std::vector<PositionMask>{{0, 1, 0, 0}, {1, 0, 0, 1}}));
}

// DuoAttention's bytes: a model of 2 layers, 2 KV heads of 8 channels, 1,024 positions, 16 sinks, the newest 48 in pages of 16:
// a whole head reads 1,024 positions, a streaming one 64; 3 of 4 whole: (3 * 1,024 + 64) * 8 * 2 * 2 B. The recorded model has one
// KV head: scores of it serve both.
TEST(HeadBudget, ServedCacheHoldsWhatEachHeadKeeps) {
  Model model;
  model.num_layers = 2;
  model.num_query_heads = model.num_kv_heads = 2;
  model.head_dim = 8;
  Compression setting;
  setting.block_size = 1;
  setting.sinks = 16;
  setting.window = 48;
  setting.stages = {Evict{.granularity = Granularity::token}};
  RecordedScores recorded{.num_model_layers = 2,
                          .layers = {0},
                          .scores = {{std::vector<double>(256, 1.0)}},
                          .num_positions = 256,
                          .num_kv_heads = 1};
  recorded.budget.kind = LayerBudget::Kind::heads;
  recorded.budget.heads = {2, 2, {0.9, 0.8, 0.1, 0.7}};
  recorded.budget.head_rule = {.keeps_whole_heads = true, .share = 750'000};
  const ServedCache cache = serve(model, setting, recorded, 1024);
  EXPECT_EQ(sequence_bytes(cache, 16, CacheLayout::per_head).total, (3 * 1024 + 64) * 8 * 2 * 2);
}

}  // namespace
}  // namespace kvtide::kv

#include "kv/compression/rest.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kv/cache_layout.h"

namespace kvtide::kv {
namespace {

/// Four positions of two channels; those of lower score go.
LayerTensors four_positions() {
  HeadTensors head;
  head.k_post.resize(4, 2);
  head.k_post << 1, 0, 0, 1, 1, 0, 3, 3;
  head.k_pre = head.k_post;
  head.v.resize(4, 2);
  head.v << 2, 0, 8, 0, 4, 0, 6, 0;
  head.q_post.resize(0, 2);
  return {head};
}

HeadCache settled(Rest rest, const std::vector<double>& scores, PartsPerMillion keep, double similarity = 0,
                  std::int64_t spread = 32, bool with_tensors = true) {
  Compression setting;
  setting.block_size = 1;
  setting.sinks = 0;
  setting.window = 0;
  setting.protects_filling_block = false;
  setting.stages = {
      Evict{.granularity = Granularity::token, .keep = keep, .rest = rest, .similarity = similarity, .spread = spread}};
  const LayerTensors layer = four_positions();
  return compress_layer(setting, 4, 1, 2, {scores}, with_tensors ? &layer : nullptr).heads.front();
}

// Kept 0 and 1. Position 2 has key (1, 0), cosine 1 with position 0: key (1, 0), value (e 2 + e 4) / 2e = 3. Position 3 has
// key (3, 3), cosine 0.7071 with both, so the earlier, weight e^0.7071 = 2.0281: value
// (e 2 + e 4 + 2.0281 * 6) / (2 e + 2.0281) = 3.8150, key (2 e + 3 * 2.0281, 3 * 2.0281) / 7.4647 = (1.5434, 0.8151).
TEST(Rest, WeightedAveragesIntoTheMostSimilarKey) {
  const HeadCache head = settled(Rest::weighted, {4, 3, 1, 0}, 500000);
  const EntryTable& table = *head.entries;
  EXPECT_EQ(table.entry_of, (std::vector<std::int32_t>{0, 1, 0, 0}));
  EXPECT_NEAR(table.v(0, 0), 3.8150, 3e-3);
  EXPECT_NEAR(table.k(0, 0), 1.5434, 1e-3);
  EXPECT_NEAR(table.k(0, 1), 0.8151, 1e-3);
  EXPECT_EQ(table.v(1, 0), 8);
  EXPECT_EQ(table.bias[0], 0);
  EXPECT_EQ(head.segments.front().k_metadata, 0);
}

// A cosine of 0.7071 is below 0.9: position 3 is gone, position 2 stays in position 0's entry, value (2 + 4) / 2.
TEST(Rest, BelowTheSimilarityAPositionIsDropped) {
  const HeadCache head = settled(Rest::weighted, {4, 3, 1, 0}, 500000, 0.9);
  EXPECT_EQ(head.entries->entry_of, (std::vector<std::int32_t>{0, 1, 0, -1}));
  EXPECT_NEAR(head.entries->v(0, 0), 3, 1e-3);
}

// Three positions in one entry: plain means, value (2 + 4 + 6) / 3 = 4, key ((1 + 1 + 3) / 3, 3 / 3), bias ln 3; votes of
// two kept entries are 4 bytes.
TEST(Rest, VotesWeighAsManyAsTheyHold) {
  const HeadCache head = settled(Rest::votes, {4, 3, 1, 0}, 500000);
  EXPECT_NEAR(head.entries->v(0, 0), 4, 1e-3);
  EXPECT_NEAR(head.entries->k(0, 0), 5.0 / 3, 1e-3);
  EXPECT_NEAR(head.entries->bias[0], std::log(3.0), 1e-6);
  EXPECT_EQ(head.entries->bias[1], 0);
  EXPECT_EQ(head.segments.front().k_metadata, 4);
}

// Position 1 of score 1 goes; the two that follow have mean score 3: p = 1/3, v = 8 gives 8 / 3 / 2 = 1.333 to each.
TEST(Rest, FollowingSpreadsTheValue) {
  const HeadCache head = settled(Rest::following, {5, 1, 2, 4}, 750000, 0, 2);
  EXPECT_EQ(head.entries->entry_of, (std::vector<std::int32_t>{0, -1, 1, 2}));
  EXPECT_EQ(head.entries->v(0, 0), 2);
  EXPECT_NEAR(head.entries->v(1, 0), 4 + 4.0 / 3, 4e-3);
  EXPECT_NEAR(head.entries->v(2, 0), 6 + 4.0 / 3, 4e-3);
}

// The chance is a ratio: scores a thousand times smaller spread as much. Scores that are all zero spread nothing.
TEST(Rest, FollowingAsksForTheRatioOfScores) {
  const HeadCache small = settled(Rest::following, {5e-3, 1e-3, 2e-3, 4e-3}, 750000, 0, 2);
  EXPECT_NEAR(small.entries->v(1, 0), 4 + 4.0 / 3, 4e-3);
  const HeadCache none = settled(Rest::following, {0, -1, 0, 0}, 750000, 0, 2);
  EXPECT_EQ(none.entries->v(1, 0), 4);
}

// The last position has nothing behind it to go to.
TEST(Rest, FollowingEndsWithTheText) {
  const HeadCache head = settled(Rest::following, {5, 4, 3, 1}, 750000, 0, 2);
  EXPECT_EQ(head.entries->v(2, 0), 4);
  EXPECT_EQ(head.entries->entry_of[3], -1);
}

// Positions 2 and 3 become one entry: key (2, 1.5), value 5, bias ln 2, two channels of fp16 for K and for V.
TEST(Rest, CompensationIsOneEntryForAll) {
  const HeadCache head = settled(Rest::compensated, {4, 3, 1, 0}, 500000);
  EXPECT_EQ(head.entries->entry_of, (std::vector<std::int32_t>{0, 1, 2, 2}));
  EXPECT_EQ(head.entries->k(2, 0), 2);
  EXPECT_EQ(head.entries->k(2, 1), 1.5);
  EXPECT_EQ(head.entries->v(2, 0), 5);
  EXPECT_NEAR(head.entries->bias[2], std::log(2.0), 1e-6);
  EXPECT_EQ(head.segments.front().k_metadata, 4);
  EXPECT_EQ(head.segments.front().v_metadata, 4);
}

// Peer's rule (merged_values.h): position 2, cosine 1, weight 4 / (4 + 2) = 2/3; position 3, cosine 0.7071, weight
// 0.7071 * 6 / (6 + 2) = 0.5303: (2 + 2/3 * 4 + 0.5303 * 6) / (1 + 2/3 + 0.5303) = 3.5724. Keys stay.
TEST(Rest, ValuesAreFoldedAndKeysStay) {
  const HeadCache head = settled(Rest::values, {4, 3, 1, 0}, 500000);
  EXPECT_NEAR(head.entries->v(0, 0), 3.5724, 3e-3);
  EXPECT_EQ(head.entries->k(0, 0), 1);
  EXPECT_EQ(head.entries->entry_of, (std::vector<std::int32_t>{0, 1, -1, -1}));
}

// Half is chosen: unread pages are paid for, host pages are not, and attention sees the same of both.
TEST(Rest, UnreadStaysInItsPagesAndHostDoesNot) {
  const HeadCache dropped = settled(Rest::dropped, {4, 3, 1, 0}, 500000);
  const HeadCache unread = settled(Rest::unread, {4, 3, 1, 0}, 500000);
  const HeadCache host = settled(Rest::host, {4, 3, 1, 0}, 500000);
  const auto bytes = [](const HeadCache& head) {
    return layer_bytes(layer_pools({{head}}, 1, CacheLayout::per_head)).total;
  };
  EXPECT_EQ(bytes(dropped), 2 * 8);  // two positions of 2 channels of fp16, K and V
  EXPECT_EQ(bytes(unread), 4 * 8);
  EXPECT_EQ(bytes(host), 2 * 8);
  ASSERT_EQ(host.host.size(), 1);
  EXPECT_EQ(host.host.front().begin, 2);
  EXPECT_EQ(host.host.front().end, 4);
  EXPECT_EQ(unread.entries->entry_of, dropped.entries->entry_of);
  EXPECT_EQ(host.entries->entry_of, dropped.entries->entry_of);
}

// Decisions and bytes need no numbers.
TEST(Rest, BytesAreTheSameWithoutTensors) {
  for (const Rest rest : {Rest::unread, Rest::host, Rest::votes, Rest::compensated}) {
    const HeadCache with = settled(rest, {4, 3, 1, 0}, 500000);
    const HeadCache without = settled(rest, {4, 3, 1, 0}, 500000, 0, 32, false);
    EXPECT_EQ(with.segments.front().k_metadata, without.segments.front().k_metadata);
    EXPECT_EQ(with.unread.size(), without.unread.size());
    EXPECT_EQ(with.host.size(), without.host.size());
  }
}

// 40 positions of 2 channels of fp16 (4 B a vector). Quest: smallest and largest channels of a page; pages of 16: 3 * 2
// vectors, 24 B; of 64: one page, 8 B. ArkVale: one centre a page of 32: 2 vectors. InfLLM: 3 representatives of each of 2
// blocks of 32; 64 cannot stand for 32: 32 of each. How the partition cuts its blocks changes nothing.
TEST(Rest, DigestsAreOfTheScorersOwnPagesAndStoredWithTheKeys) {
  const auto digests = [](const std::string& scorer, const ScorerParameters& parameters, std::int64_t block_size) {
    Compression setting;
    setting.block_size = block_size;
    setting.sinks = 0;
    setting.window = 0;
    setting.protects_filling_block = false;
    setting.stages = {Evict{.scorer = scorer, .parameters = parameters, .rest = Rest::unread}};
    const LayerScores scores{std::vector<double>(40, 1.0)};
    return compress_layer(setting, 40, 1, 2, scores, nullptr).heads.front().segments.front().k_metadata;
  };
  for (const std::int64_t block_size : {1, 8, 20}) {
    EXPECT_EQ(digests("quest", {}, block_size), 24);
    EXPECT_EQ(digests("quest", {{"page", 64}}, block_size), 8);
    EXPECT_EQ(digests("arkvale", {}, block_size), 8);
    EXPECT_EQ(digests("infllm", {{"block", 32}, {"representatives", 3}}, block_size), 24);
    EXPECT_EQ(digests("infllm", {{"block", 32}, {"representatives", 64}}, block_size), 256);
  }
  EXPECT_EQ(digests("knorm", {}, 8), 0);
}

TEST(Rest, WantsEvictToBeTheOnlyStage) {
  Compression setting;
  setting.stages = {Evict{.rest = Rest::votes}, Quantize{}};
  EXPECT_FALSE(contradictions(setting, 32).empty());
  setting.stages = {Evict{.rest = Rest::votes}};
  EXPECT_TRUE(contradictions(setting, 32).empty());
}

}  // namespace
}  // namespace kvtide::kv

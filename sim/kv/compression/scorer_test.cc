#include "kv/compression/scorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kv/testing/random_layer.h"

namespace kvtide::kv {
namespace {

using ::testing::HasSubstr;

/// One head with the given keys and values (head_dim 2), queries at every position, no rotation.
LayerTensors head_of(const std::vector<std::pair<float, float>>& keys,
                     const std::vector<std::pair<float, float>>& values,
                     const std::vector<std::pair<float, float>>& queries) {
  const auto rows = [](const std::vector<std::pair<float, float>>& pairs) {
    RowMatrix matrix(static_cast<std::int64_t>(pairs.size()), 2);
    for (std::size_t row = 0; row < pairs.size(); ++row) {
      matrix(static_cast<std::int64_t>(row), 0) = pairs[row].first;
      matrix(static_cast<std::int64_t>(row), 1) = pairs[row].second;
    }
    return matrix;
  };
  HeadTensors head;
  head.k_pre = head.k_post = rows(keys);
  head.v = rows(values);
  head.q_pre = head.q_post = rows(queries);
  for (std::size_t position = 0; position < queries.size(); ++position) {
    head.q_positions.push_back(static_cast<std::int64_t>(position));
  }
  return {head};
}

std::vector<double> scores_of(const std::string& scorer, const LayerTensors& layer, ScorerParameters parameters = {},
                              PartsPerMillion keep = 500000) {
  return score_layer(
             find_scorer(scorer), layer,
             {.num_positions = layer.front().num_positions(), .keep = keep, .parameters = std::move(parameters)})
      .front();
}

const std::vector<std::pair<float, float>> kZero3{{0, 0}, {0, 0}, {0, 0}};

// A million tokens are more than any context here; a larger limit would only let a slip of the keyboard through.
TEST(Scorers, NoParameterOfPositionsGoesBeyondAMillion) {
  for (const ScorerEntry& entry : scorers()) {
    for (const ScorerParameter& parameter : entry.parameters) {
      EXPECT_LE(parameter.min, parameter.fallback) << entry.name << " " << parameter.name;
      EXPECT_LE(parameter.fallback, parameter.max) << entry.name << " " << parameter.name;
      EXPECT_LE(parameter.max, 1 << 20) << entry.name << " " << parameter.name;
    }
  }
}

TEST(Scorers, AreSortedByNameAndEveryParameterHasItsFallbackInRange) {
  EXPECT_TRUE(std::ranges::is_sorted(scorers(), {}, &ScorerEntry::name));
  for (const ScorerEntry& entry : scorers()) {
    EXPECT_FALSE(entry.summary.empty()) << entry.name;
    for (const ScorerParameter& parameter : entry.parameters) {
      EXPECT_GE(parameter.fallback, parameter.min) << entry.name << " " << parameter.name;
      EXPECT_LE(parameter.fallback, parameter.max) << entry.name << " " << parameter.name;
      EXPECT_FALSE(parameter.summary.empty()) << entry.name << " " << parameter.name;
    }
  }
}

TEST(Scorers, ParameterOutOfRangeOrUnknownIsRefusedByName) {
  const ScorerEntry& snapkv = find_scorer("snapkv");
  EXPECT_EQ(resolved_parameters(snapkv, {{"window", 1}}), (ScorerParameters{{"kernel", 5}, {"window", 1}}));
  for (const ScorerParameters& wrong : {ScorerParameters{{"window", 0}}, {{"window", 1.5}}, {{"sinks", 4}}}) {
    try {
      (void)resolved_parameters(snapkv, wrong);
      ADD_FAILURE() << wrong.front().first << " " << wrong.front().second;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(wrong.front().first));
    }
  }
}

// |(3, 4)| = 5, |(0, 1)| = 1.
TEST(Knorm, IsMinusTheLengthOfTheKey) {
  EXPECT_THAT(scores_of("knorm", head_of({{3, 4}, {0, 1}, {0, 0}}, kZero3, kZero3)),
              ::testing::ElementsAre(-5.0, -1.0, 0.0));
}

// Unit keys (1,0), (1,0), (0,1): mean (2/3, 1/3) of length sqrt(5)/3; cosines 2/sqrt 5, 2/sqrt 5, 1/sqrt 5.
TEST(KeyDiff, IsMinusTheCosineWithTheMeanDirection) {
  const std::vector<double> scores = scores_of("keydiff", head_of({{2, 0}, {5, 0}, {0, 1}}, kZero3, kZero3));
  EXPECT_NEAR(scores[0], -2 / std::sqrt(5.0), 1e-6);
  EXPECT_NEAR(scores[1], -2 / std::sqrt(5.0), 1e-6);
  EXPECT_NEAR(scores[2], -1 / std::sqrt(5.0), 1e-6);
}

// What is left of the cache scores as if the rest had never been there, whether its rows are copied or not.
TEST(KeyDiff, RescoresSomePositionsAsAContextOfTheirOwn) {
  const LayerTensors layer = testing::random_layer(2, 70, 20, 3);
  const std::vector<std::int64_t> left{0, 5, 17, 18, 40, 69};
  LayerTensors alone = layer;
  for (HeadTensors& head : alone) {
    for (std::size_t index = 0; index < left.size(); ++index) {
      head.k_post.row(static_cast<std::int64_t>(index)) = layer[&head - alone.data()].k_post.row(left[index]);
    }
  }
  const ScorerEntry& keydiff = find_scorer("keydiff");
  const LayerScores expected = score_layer(keydiff, alone, {.num_positions = 6});
  const Rescore rescore = keydiff.rescore(layer, {.num_positions = 70});
  EXPECT_EQ(rescore(0, left), expected[0]);
  EXPECT_EQ(rescore(1, left), expected[1]);
}

// Equal logits: rows (1), (1/2, 1/2), (1/3, 1/3, 1/3). Sums 11/6, 5/6, 1/3; seen by 3, 2, 1 queries.
TEST(ObservedAttention, DividesByTheQueriesThatSeeThePosition) {
  const LayerTensors layer = head_of(kZero3, kZero3, kZero3);
  const std::vector<double> mean = scores_of("observed_attention", layer);
  EXPECT_NEAR(mean[0], 11.0 / 18, 1e-6);
  EXPECT_NEAR(mean[1], 5.0 / 12, 1e-6);
  EXPECT_NEAR(mean[2], 1.0 / 3, 1e-6);
  const std::vector<double> sum = scores_of("observed_attention", layer, {{"normalise", 0}});
  EXPECT_NEAR(sum[0], 11.0 / 6, 1e-6);
  EXPECT_NEAR(sum[1], 5.0 / 6, 1e-6);
}

// Window 1, kernel 1: the newest query's equal weights 1/3 on what precedes it; the window gets the largest plus 1.
// Kernel 3: (0 + 1/3 + 1/3)/3 at both positions.
TEST(SnapKV, SmoothsWithZerosBeyondTheEndsAndKeepsTheWindow) {
  const LayerTensors layer = head_of(kZero3, kZero3, kZero3);
  EXPECT_THAT(scores_of("snapkv", layer, {{"window", 1}, {"kernel", 1}}),
              ::testing::ElementsAre(::testing::DoubleNear(1.0 / 3, 1e-7), ::testing::DoubleNear(1.0 / 3, 1e-7),
                                     ::testing::DoubleNear(4.0 / 3, 1e-7)));
  const std::vector<double> smoothed = scores_of("snapkv", layer, {{"window", 1}, {"kernel", 3}});
  EXPECT_NEAR(smoothed[0], 2.0 / 9, 1e-7);
  EXPECT_NEAR(smoothed[1], 2.0 / 9, 1e-7);
}

// Case Q8: a prompt shorter than the window is all window.
TEST(SnapKV, PromptShorterThanTheWindowScoresAlike) {
  EXPECT_THAT(scores_of("snapkv", head_of(kZero3, kZero3, kZero3)), ::testing::Each(1.0));
}

// The newest query sees 1/3 everywhere; the newest position is certain.
TEST(Tova, IsTheNewestQueryAndKeepsTheNewestPosition) {
  const std::vector<double> scores = scores_of("tova", head_of(kZero3, kZero3, kZero3));
  EXPECT_NEAR(scores[0], 1.0 / 3, 1e-7);
  EXPECT_NEAR(scores[2], 4.0 / 3, 1e-7);
}

// 10 positions, keep half, 2 sinks: 5 go, from position 2 on.
TEST(Streaming, KeepsSinksAndNewest) {
  const LayerScores scores =
      score_layer(find_scorer("streaming"), {}, {.num_positions = 10, .num_heads = 2, .parameters = {{"sinks", 2}}});
  ASSERT_EQ(scores.size(), 2u);
  EXPECT_EQ(scores[1], (std::vector<double>{1, 1, 0, 0, 0, 0, 0, 1, 1, 1}));
}

// Window 2: |k|^2 = 1, 3 | 4; |v|^2 = 1, 1 | 9. Shares 1/4 * 1/2, 3/4 * 1/2 | 1 * 1, over their sum 3/2.
TEST(Cur, MultipliesLocalSharesOfKeyAndValue) {
  const LayerTensors layer = head_of({{1, 0}, {std::sqrt(3.0F), 0}, {0, 2}}, {{1, 0}, {0, 1}, {3, 0}}, kZero3);
  const std::vector<double> scores = scores_of("cur", layer, {{"sinks", 0}, {"window", 2}});
  EXPECT_NEAR(scores[0], 1.0 / 12, 1e-6);
  EXPECT_NEAR(scores[1], 3.0 / 12, 1e-6);
  EXPECT_NEAR(scores[2], 8.0 / 12, 1e-6);
  EXPECT_EQ(scores_of("cur", layer, {{"sinks", 1}, {"window", 2}})[0], 1.0);
  // Of both: (1/4 + 1/2, 3/4 + 1/2, 2) over 4.
  const std::vector<double> of_both = scores_of("cur", layer, {{"sinks", 0}, {"window", 2}, {"leverage", 3}});
  EXPECT_NEAR(of_both[0], 0.75 / 4, 1e-6);
  EXPECT_NEAR(of_both[1], 1.25 / 4, 1e-6);
  EXPECT_NEAR(scores_of("cur", layer, {{"sinks", 0}, {"window", 2}, {"leverage", 1}})[0], 0.25 / 2, 1e-6);
  EXPECT_NEAR(scores_of("cur", layer, {{"sinks", 0}, {"window", 2}, {"leverage", 2}})[0], 0.5 / 2, 1e-6);
  // A window of one position: all shares are 1. None: 1 * 1, 3 * 1, 4 * 9, over 40.
  for (const double score : scores_of("cur", layer, {{"sinks", 0}, {"window", 1}})) EXPECT_NEAR(score, 1.0 / 3, 1e-6);
  EXPECT_NEAR(scores_of("cur", layer, {{"sinks", 0}, {"window", 0}})[1], 3.0 / 40, 1e-6);
}

// Partitions of 2 after no sinks: 0 1 | 2 3 | 4. The last full partition and the tail score 1. Range of 2, 3 per channel:
// [0, 1] and [0, 1]; rows (0, 0) and (0, 2) have deviations 0 and sqrt 2, so ranks 0 and 1 of 2.
TEST(LagKV, RanksDeviationsInUnitsOfTheNextPartition) {
  const std::vector<std::pair<float, float>> rows{{0, 0}, {0, 2}, {0, 0}, {1, 1}, {7, 7}};
  EXPECT_EQ(scores_of("lagkv", head_of(rows, rows, rows), {{"lag", 2}, {"sinks", 0}}),
            (std::vector<double>{0, 0.5, 1, 1, 1}));
  // One position short of two partitions: nothing but recency.
  const std::vector<double> few = scores_of(
      "lagkv", head_of({rows[0], rows[1], rows[2]}, {rows[0], rows[1], rows[2]}, kZero3), {{"lag", 2}, {"sinks", 0}});
  EXPECT_EQ(few, (std::vector<double>{0, 1.0 / 3, 2.0 / 3}));
}

// Row i of the first partition is (0, x), of the second (0, 0) or (1, 1): its deviation grows with x = (7 i mod n) / 2000, whose
// rank is 7 i mod n, few rows or many. Equal rows rank in order.
TEST(LagKV, RanksShortAndLongPartitions) {
  for (const std::int64_t lag : {40, 1100}) {
    std::vector<std::pair<float, float>> rows;
    for (std::int64_t row = 0; row < lag; ++row) rows.emplace_back(0.0F, static_cast<float>(7 * row % lag) / 2000);
    for (std::int64_t row = 0; row < lag; ++row) rows.emplace_back(row % 2, row % 2);
    const ScorerParameters parameters{{"lag", static_cast<double>(lag)}, {"sinks", 0}};
    const std::vector<double> ranks = scores_of("lagkv", head_of(rows, rows, rows), parameters);
    std::fill_n(rows.begin(), lag, std::pair{0.0F, 0.0F});
    const std::vector<double> equal = scores_of("lagkv", head_of(rows, rows, rows), parameters);
    for (std::int64_t row = 0; row < lag; ++row) {
      const auto index = static_cast<std::size_t>(row);
      EXPECT_EQ(ranks[index], static_cast<double>(7 * row % lag) / static_cast<double>(lag)) << row << " of " << lag;
      EXPECT_EQ(equal[index], static_cast<double>(row) / static_cast<double>(lag)) << row << " of " << lag;
    }
  }
}

// Page of keys (1, -1), (3, 0): box [1, 3] x [-1, 0]; query (1, 1) -> 3 + 0. The sphere: centre (2, -0.5), radius half of
// |(2, 1)| = sqrt(5)/2, times |q| = sqrt 2.
TEST(PageBounds, HoldForEveryKeyOfThePage) {
  const LayerTensors layer = head_of({{1, -1}, {3, 0}}, {{0, 0}, {0, 0}}, {{0, 0}, {1, 1}});
  EXPECT_THAT(scores_of("quest", layer, {{"page", 2}}), ::testing::Each(3.0));
  EXPECT_THAT(scores_of("arkvale", layer, {{"page", 2}}),
              ::testing::Each(::testing::DoubleNear(1.5 + std::sqrt(10.0) / 2, 1e-6)));
}

// |v| / |k|.
TEST(PagedEviction, IsValueLengthOverKeyLength) {
  EXPECT_NEAR(scores_of("paged_eviction", head_of({{3, 4}}, {{0, 10}}, {{0, 0}}))[0], 2.0, 1e-6);
}

// Zero queries: mean and covariance are zero, so the two positions after the sink weigh 1/2 each.
TEST(ExpectedAttention, WithoutQueriesWeighsByValueAlone) {
  const std::vector<double> scores =
      scores_of("expected_attention", head_of(kZero3, {{1, 0}, {0, 3}, {4, 3}}, kZero3), {{"sinks", 1}});
  EXPECT_NEAR(scores[1], 3.0 / 2, 1e-6);
  EXPECT_NEAR(scores[2], 5.0 / 2, 1e-6);
  EXPECT_NEAR(scores[0], 5.0 / 2 + 1, 1e-6);
}

// One chunk, zero queries: each of the 3 queries gives 1/3 to each key, so sums are 1, times |v| = 1, 2, 3. Smoothed with
// zeros beyond the ends: 1, 2, 5/3; mean 14/9, deviations -5/9, 4/9, 1/9, their
// unbiased standard deviation sqrt((25 + 16 + 1) / 81 / 2).
TEST(NonCausal, SumsAttentionOfTheWholeChunk) {
  const std::vector<double> scores =
      scores_of("non_causal", head_of(kZero3, {{1, 0}, {2, 0}, {3, 0}}, kZero3), {{"chunk", 3}});
  const double deviation = std::sqrt((25.0 / 81 + 16.0 / 81 + 1.0 / 81) / 2);
  EXPECT_NEAR(scores[0], -5.0 / 9 / deviation, 1e-6);
  EXPECT_NEAR(scores[1], 4.0 / 9 / deviation, 1e-6);
  EXPECT_NEAR(scores[2], 1.0 / 9 / deviation, 1e-6);
}

// Values (1, 0) twice and (0, 1), equal weights 1: A = I + diag(2, 1), so leverages 1/3, 1/3, 1/2.
TEST(Cap, IsTheRidgeLeverageOfTheValue) {
  const std::vector<double> scores = scores_of(
      "cap", head_of({{1, 0}, {1, 0}, {1, 0}}, {{1, 0}, {1, 0}, {0, 1}}, kZero3), {{"sinks", 0}, {"epsilon", 0}});
  EXPECT_NEAR(scores[0], 1.0 / 3, 1e-6);
  EXPECT_NEAR(scores[2], 1.0 / 2, 1e-6);
}

// Case Q3: what comes later moves no score of a causal scorer. Numbers of positions 20..39 are changed; the first 20 are
// scored as before.
TEST(Scorers, SeeNothingBeyondThePositionsTheyScore) {
  LayerTensors layer = testing::random_layer(2, 40, 8, 5, 10000, true);
  LayerTensors changed = layer;
  for (HeadTensors& head : changed) {
    for (RowMatrix* rows : {&head.k_pre, &head.k_post, &head.v, &head.q_post}) rows->bottomRows(20).array() *= -3.0F;
  }
  const LayerScores given(2, std::vector<double>(20, 1.0));
  for (const ScorerEntry& entry : scorers()) {
    const ScorerContext context{.num_positions = 20, .score_window = 8, .given = &given};
    const LayerScores before = score_layer(entry, layer, context);
    const LayerScores after = score_layer(entry, changed, context);
    if (entry.needs.queries == ScorerNeeds::Queries::future) {
      EXPECT_NE(before, after) << entry.name;
    } else {
      EXPECT_EQ(before, after) << entry.name;
    }
    EXPECT_EQ(before.size(), 2u) << entry.name;
    EXPECT_EQ(before[1].size(), 20u) << entry.name;
    EXPECT_EQ(before, score_layer(entry, layer, context)) << entry.name << " is not deterministic";
  }
}

// What a scorer says that it reads is what the machine is charged for: its scores change with that and with nothing else.
TEST(Scorers, ReadWhatTheySayTheyRead) {
  const LayerTensors layer = testing::random_layer(8, 600, 8, 5, 10000, true);
  const LayerTensors other = testing::random_layer(8, 600, 8, 6, 10000, true);
  const LayerScores given(8, std::vector<double>(560, 1.0));
  for (const ScorerEntry& entry : scorers()) {
    const auto changes_with = [&](auto&& take) {
      LayerTensors changed = layer;
      for (std::size_t head = 0; head < changed.size(); ++head) take(changed[head], other[head]);
      const ScorerContext context{.num_positions = 560, .score_window = 8, .given = &given};
      return score_layer(entry, layer, context) != score_layer(entry, changed, context);
    };
    const auto keys = [](HeadTensors& head, const HeadTensors& of) {
      head.k_pre = of.k_pre;
      head.k_post = of.k_post;
    };
    EXPECT_EQ(changes_with(keys), entry.needs.keys) << entry.name;
    EXPECT_EQ(changes_with([](HeadTensors& head, const HeadTensors& of) { head.v = of.v; }), entry.needs.values)
        << entry.name;
    EXPECT_EQ(changes_with([](HeadTensors& head, const HeadTensors& of) { head.q_post = 4 * of.q_post; }),
              entry.needs.queries != ScorerNeeds::Queries::none)
        << entry.name;
  }
}

TEST(Scorers, SayWhichQueriesAreMissing) {
  LayerTensors layer = testing::random_layer(1, 40, 8, 5, 10000, true);
  layer[0].q_positions.erase(layer[0].q_positions.begin(), layer[0].q_positions.begin() + 30);
  layer[0].q_post = layer[0].q_post.bottomRows(10).eval();
  EXPECT_NO_THROW((void)scores_of("snapkv", layer, {{"window", 10}}));
  try {
    (void)scores_of("snapkv", layer, {{"window", 11}});
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("snapkv needs the queries at positions 29..39"));
  }
}

TEST(Scorers, EmptyContextGivesEmptyScores) {
  for (const ScorerEntry& entry : scorers()) {
    const LayerScores scores = score_layer(entry, testing::random_layer(2, 4, 8, 5), {.num_positions = 0});
    EXPECT_EQ(scores, LayerScores(2)) << entry.name;
  }
}

// Four positions, sinks 1, newest 1, the query at position 3. Head 0 has key ln 8 at position 1: (8 + 1) / 11 of its attention
// lies between; head 1 has it at position 0: 2 / 11. Half of two heads is one, and it is head 0.
TEST(RetrievalHeads, AreThoseThatLookBeyondSinksAndNewest) {
  const float far = std::log(8.0F);
  LayerTensors layer =
      head_of({{0, 0}, {far, 0}, {0, 0}, {0, 0}}, {{0, 0}, {0, 0}, {0, 0}, {0, 0}}, {{1, 0}, {1, 0}, {1, 0}, {1, 0}});
  layer.push_back(
      head_of({{far, 0}, {0, 0}, {0, 0}, {0, 0}}, {{0, 0}, {0, 0}, {0, 0}, {0, 0}}, {{1, 0}, {1, 0}, {1, 0}, {1, 0}})
          .front());
  const ScorerParameters parameters{{"newest", 1}, {"share", 0.5}, {"sinks", 1}, {"window", 1}};
  const ScorerEntry& entry = find_scorer("retrieval_heads");
  const LayerScores half = score_layer(entry, layer, {.num_positions = 4, .parameters = parameters});
  EXPECT_EQ(half, (LayerScores{{1, 1, 1, 1}, {0, 0, 0, 0}}));
  const LayerScores all = score_layer(entry, layer, {.num_positions = 4, .parameters = {{"share", 1}}});
  EXPECT_EQ(all, (LayerScores{{1, 1, 1, 1}, {1, 1, 1, 1}}));
}

// The heads of RetrievalHeads, watched by the newest query: shares of (1, 8, 1, 1) / 11 and (8, 1, 1, 1) / 11; between the
// first and the newest lie 9/11 and 2/11. SnapKV ranks the newest first, then position 1 (head 0) or 0 (head 1), then in
// order.
TEST(HeadKv, DividesTheHeadsImportanceByTheRankOfThePosition) {
  const float far = std::log(8.0F);
  const std::vector<std::pair<float, float>> zeros{{0, 0}, {0, 0}, {0, 0}, {0, 0}};
  const std::vector<std::pair<float, float>> ones{{1, 0}, {1, 0}, {1, 0}, {1, 0}};
  LayerTensors layer = head_of({{0, 0}, {far, 0}, {0, 0}, {0, 0}}, zeros, ones);
  layer.push_back(head_of({{far, 0}, {0, 0}, {0, 0}, {0, 0}}, zeros, ones).front());
  const ScorerParameters parameters{{"kernel", 1}, {"newest", 1}, {"sinks", 1}, {"window", 1}};
  const LayerScores scores = score_layer(find_scorer("headkv"), layer, {.num_positions = 4, .parameters = parameters});
  const double expected[2][4] = {{9.0 / 33, 9.0 / 22, 9.0 / 44, 9.0 / 11}, {2.0 / 22, 2.0 / 33, 2.0 / 44, 2.0 / 11}};
  for (std::size_t head = 0; head < 2; ++head) {
    for (std::size_t position = 0; position < 4; ++position) {
      EXPECT_NEAR(scores[head][position], expected[head][position], 1e-6) << head << " " << position;
    }
  }
}

}  // namespace
}  // namespace kvtide::kv

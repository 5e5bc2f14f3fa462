#include "kv/compression/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kv/compression/critical_stage.h"
#include "kv/compression/evict.h"
#include "kv/compression/evicted_runs.h"
#include "kv/compression/layer_budget.h"
#include "kv/partition.h"

namespace kvtide::kv {
namespace {

Compression blocks_of(std::int64_t size, Evict stage) {
  Compression setting;
  setting.block_size = size;
  setting.sinks = 0;
  setting.window = 0;
  setting.protects_filling_block = false;
  stage.granularity = Granularity::token;
  setting.stages = {stage};
  return setting;
}

std::vector<std::size_t> chosen(const std::vector<double>& scores, std::int64_t count) {
  std::vector<std::size_t> best = best_positions(scores, count);
  std::ranges::sort(best);
  return best;
}

TEST(BestPositions, TakeTheEarlierOnATieAndNeverMoreThanThereAre) {
  const std::vector<double> scores{1, 2, 2, 2};
  EXPECT_EQ(chosen(scores, 2), (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(chosen(scores, 9).size(), 4u);
  EXPECT_TRUE(chosen(scores, -1).empty());
}

// 51 of 103: floor(103 * 0.504855) = 52 go; one millionth more kept and 51 go.
TEST(KeepForCount, IsTheLargestRatioThatKeepsTheCount) {
  EXPECT_EQ(keep_for_count(103, 51), 495145);
  for (const std::int64_t num : {1, 2, 103, 2048, 999'999}) {
    for (const std::int64_t kept : {std::int64_t{1}, (num + 1) / 2, num}) {
      const std::int64_t keep = keep_for_count(num, kept);
      EXPECT_EQ(kept_count(num, keep), kept) << num << " " << kept;
      if (kept < num) {
        EXPECT_GT(kept_count(num, keep + 1), kept) << num << " " << kept;
      }
    }
  }
}

// Blocks of 4, half kept: each block's own best two, though the first block holds the four best of all.
TEST(Selection, QuotaGivesEveryBlockTheSameShare) {
  Evict stage;
  stage.selection = Selection::quota;
  const LayerScores scores{{9, 8, 7, 6, 1, 2, 3, 4}};
  const LayerScores lifted = selected_scores(blocks_of(4, stage), stage, scores, {});
  EXPECT_EQ(chosen(lifted[0], 4), (std::vector<std::size_t>{0, 1, 6, 7}));
}

// Where all scores are one number each block still keeps its own, of equal ones the first.
TEST(Selection, QuotaHoldsWhereAllScoresAreEqual) {
  Evict stage;
  stage.selection = Selection::quota;
  for (const double score : {0.0, -7.0, 1e300}) {
    const LayerScores lifted = selected_scores(blocks_of(4, stage), stage, {std::vector<double>(8, score)}, {});
    EXPECT_EQ(chosen(lifted[0], 4), (std::vector<std::size_t>{0, 1, 4, 5})) << score;
  }
}

// Budget 2 of 6, blocks of 2. {0, 1} start; {2, 3} join: best of 5 1 2 3 are 0 and 3; {4, 5} join: best of 5 3 4 9 are 0
// and 5.
TEST(Selection, IterationLetsBlocksJoinOneAfterTheOther) {
  Evict stage;
  stage.selection = Selection::iterative;
  stage.keep = keep_for_count(6, 2);
  const LayerScores lifted = selected_scores(blocks_of(2, stage), stage, {{5, 1, 2, 3, 4, 9}}, {});
  EXPECT_EQ(chosen(lifted[0], 2), (std::vector<std::size_t>{0, 5}));
}

// The same blocks, asked again about what is left: there the score is the position, so the newest two survive, whatever
// the scores of the whole context were.
TEST(Selection, IterationAsksForScoresOfWhatIsLeft) {
  Evict stage;
  stage.selection = Selection::iterative;
  stage.keep = keep_for_count(6, 2);
  const Rescore rescore = [](std::size_t, const std::vector<std::int64_t>& positions) {
    std::vector<double> scores;
    for (const std::int64_t position : positions) scores.push_back(static_cast<double>(position));
    return scores;
  };
  const LayerScores lifted = selected_scores(blocks_of(2, stage), stage, {{5, 1, 2, 3, 4, 9}}, rescore);
  EXPECT_EQ(chosen(lifted[0], 2), (std::vector<std::size_t>{4, 5}));
}

// Blocks of 4. Sums over heads: block 0 even (entropy 1), block 1 a peak (entropy near 0) and high, block 2 low. Budget 6:
// block 1 comes first by mean and keeps its best one only, block 0 all four, block 2 the one that is left.
TEST(Selection, BlockOfLowEntropyKeepsItsBestFew) {
  Evict stage;
  stage.selection = Selection::entropy_gated;
  stage.low_entropy_kept = 1;
  stage.keep = keep_for_count(12, 6);
  const LayerScores scores{{5, 5, 5, 5, 0, 80, 0, 0, 1, 1, 2, 1}};
  const LayerScores lifted = selected_scores(blocks_of(4, stage), stage, scores, {});
  EXPECT_EQ(chosen(lifted[0], 6), (std::vector<std::size_t>{0, 1, 2, 3, 5, 10}));
}

// Two heads of 4, half kept: a budget of 4 in all. Head 0 has the four best scores; without a safeguard it gets all,
// with a safeguard of half head 1 is sure of one.
TEST(AdaptiveHeads, BudgetGoesWhereScoresAreHighestButForTheSafeguard) {
  Evict stage;
  stage.heads = HeadScope::adaptive;
  stage.safeguard = 500000;
  const LayerScores scores{{9, 8, 7, 6}, {1, 2, 3, 4}};
  const auto runs = evicted_runs(blocks_of(1, stage), 4, scores);
  EXPECT_EQ(runs[0], (PositionRuns{{3, 4}}));
  EXPECT_EQ(runs[1], (PositionRuns{{0, 3}}));
}

TEST(SharedHeads, ChooseByTheSumOfTheirScores) {
  Evict stage;
  stage.heads = HeadScope::shared;
  const auto runs = evicted_runs(blocks_of(1, stage), 4, {{4, 3, 0, 0}, {0, 0, 9, 2}});
  EXPECT_EQ(runs[0], (PositionRuns{{1, 2}, {3, 4}}));  // sums 4 3 9 2
  EXPECT_EQ(runs[0], runs[1]);
}

TEST(Threshold, KeepsWhatScoresEnoughAndNeverNothing) {
  Evict stage;
  stage.threshold = 3;
  const auto runs = evicted_runs(blocks_of(1, stage), 4, {{4, 3, std::nextafter(3.0, 0.0), 9}, {1, 2, 1, 0}});
  EXPECT_EQ(runs[0], (PositionRuns{{2, 3}}));
  EXPECT_EQ(runs[1], (PositionRuns{{0, 1}, {2, 4}}));
}

// Budget 2 of 4, first stage half: the best score stays; of the others the product decides: 3*1, 2*10, 1*1.
TEST(CriticalStage, SecondHalfOfTheBudgetGoesByScoreTimesNorm) {
  Evict stage;
  stage.critical.emplace();
  const LayerScores scores = two_stage_scores(stage, {{4, 3, 2, 1}}, {{1, 1, 10, 1}});
  EXPECT_EQ(chosen(scores[0], 2), (std::vector<std::size_t>{0, 2}));
  EXPECT_NEAR(scores[0][2], (2 + 1e-4) * 10, 1e-12);
}

// W_o = ((1, 0), (0, -2)), v = (3, 4): |3| + |-8| = 11; the second query head's columns are twice that: mean 16.5.
TEST(CriticalStage, NormIsTheOneNormOfTheProjectedValueMeanOverTheGroup) {
  HeadTensors head;
  head.v = RowMatrix(1, 2);
  head.v << 3, 4;
  head.k_post = head.v;
  head.group_size = 2;
  RowMatrix output_projection(2, 4);
  output_projection << 1, 0, 2, 0, 0, -2, 0, -4;
  EXPECT_NEAR(projected_value_norms({head}, 1, output_projection)[0][0], 16.5, 1e-6);
}

// The header's example.
TEST(PyramidBudget, FallsFromFirstLayerToLastAndIsUniformWhereItWouldGetBelowTheWindow) {
  EXPECT_EQ(pyramid_count({}, 2048, 500000, 0, 30), 1984);
  EXPECT_EQ(pyramid_count({}, 2048, 500000, 29, 30), 64);
  EXPECT_EQ(pyramid_count({}, 2048, 250000, 0, 30), 512);
  EXPECT_EQ(pyramid_count({}, 2048, 250000, 29, 30), 512);
  EXPECT_EQ(pyramid_count({}, 2048, 750000, 29, 30), 1088);
}

// Two layers keep 1,984 and 64, 1,024 on average; one layer has that average alone.
TEST(PyramidBudget, OneLayerKeepsItsOwnShare) {
  EXPECT_EQ(pyramid_count({}, 2048, 500000, 0, 2), 1984);
  EXPECT_EQ(pyramid_count({}, 2048, 500000, 1, 2), 64);
  EXPECT_EQ(pyramid_count({}, 2048, 500000, 0, 1), 1024);
}

// Table of two parts over 4 layers: 0, 1 | 2, 3. A lazy layer of 2,056 positions keeps 1,028, exactly half.
TEST(LayerBudget, MovesTheBudgetBetweenLayers) {
  const auto keeps = [](const LayerBudget& budget, std::int64_t layer, bool is_lazy) {
    return layer_keep(budget, 250000, layer, 4, 2056, is_lazy);
  };
  EXPECT_EQ(keeps({}, 3, true), 250000);
  LayerBudget table;
  table.kind = LayerBudget::Kind::table;
  table.table = {1'000'000, 100000};
  EXPECT_EQ(keeps(table, 1, false), 1'000'000);
  EXPECT_EQ(keeps(table, 2, false), 100000);
  LayerBudget lazy;
  lazy.kind = LayerBudget::Kind::lazy;
  EXPECT_EQ(keeps(lazy, 0, true), 500000);
  EXPECT_EQ(keeps(lazy, 0, false), 1'000'000);
  EXPECT_EQ(layer_keep(lazy, 250000, 0, 4, 100, true), 1'000'000);  // shorter than what a lazy layer keeps
  lazy.lazy_kept = 1;  // the smallest ratio there is: of 999,999 positions one, of two million two
  EXPECT_EQ(kept_count(999'999, layer_keep(lazy, 250000, 0, 4, 999'999, true)), 1);
  EXPECT_EQ(layer_keep(lazy, 250000, 0, 4, 2'000'000, true), 1);
  LayerBudget pyramid;
  pyramid.kind = LayerBudget::Kind::pyramid;
  EXPECT_EQ(kept_count(2048, layer_keep(pyramid, 500000, 0, 30, 2048, false)), 1984);
}

}  // namespace
}  // namespace kvtide::kv

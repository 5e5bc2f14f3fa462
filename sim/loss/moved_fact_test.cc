#include "loss/moved_fact.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "kv/attention_weights.h"
#include "kv/compression/attention_sum_scorer.h"
#include "kv/compression/evicted_runs.h"
#include "kv/compression/scorer.h"
#include "kv/testing/random_layer.h"

namespace kvtide::loss {
namespace {

constexpr std::int64_t kPositions = 96;
constexpr std::int64_t kWindow = 8;

MovedFact fact_at(std::int64_t begin) {
  MovedFact fact;
  fact.begin = begin;
  fact.length = 6;
  fact.needed = {4, 5};
  fact.scoring = {kPositions - kWindow, kPositions - 1};
  fact.measured = {kPositions - 3, kPositions - 1};
  for (std::int64_t begin_of = 0; begin_of < kPositions; begin_of += 16) fact.cell_begins.push_back(begin_of);
  fact.num_positions = kPositions;
  fact.step = 7;
  return fact;
}

kv::Compression blocks_of_16() {
  kv::Compression setting;
  setting.block_size = 16;
  setting.sinks = 0;
  setting.window = kWindow;
  setting.stages = {kv::Evict{}};
  return setting;
}

/// The layer with its tokens in the moved order, every key turned at its new position.
kv::LayerTensors reordered(const kv::LayerTensors& layer, const MovedFact& fact, std::int64_t place) {
  std::vector<std::int64_t> order;
  for (std::int64_t token = 0; token < kPositions; ++token) {
    if (token < fact.begin || token >= fact.begin + fact.length) order.push_back(token);
  }
  for (std::int64_t token = 0; token < fact.length; ++token) {
    order.insert(order.begin() + place + token, fact.begin + token);
  }
  kv::LayerTensors moved = layer;
  for (std::size_t head = 0; head < layer.size(); ++head) {
    for (std::int64_t position = 0; position < kPositions; ++position) {
      const std::int64_t token = order[static_cast<std::size_t>(position)];
      moved[head].k_pre.row(position) = layer[head].k_pre.row(token);
      moved[head].k_post.row(position) = layer[head].k_pre.row(token);
      moved[head].rope.rotate({moved[head].k_post.row(position).data(), 8}, static_cast<double>(position));
    }
  }
  return moved;
}

// Every place against the text really reordered, scored, evicted and read anew.
TEST(MovedFact, IsTheReorderedTextAtEveryPlace) {
  const kv::LayerTensors layer = kv::testing::random_layer(2, kPositions, 8, 5, 10000, true);
  const kv::Compression setting = blocks_of_16();
  for (const std::int64_t begin : {0, 30, 82}) {
    const MovedFact fact = fact_at(begin);
    const MovedFactScan scan = scan_moved_fact(
        {layer}, fact, [&](const kv::LayerScores& scores) { return kv::evicted_runs(setting, kPositions, scores); });
    // 88 positions before the scoring queries hold a fact of 6 at 0, 7, .., 77.
    ASSERT_EQ(scan.position.size(), 12u);
    for (std::size_t index = 0; index < scan.position.size(); ++index) {
      const std::int64_t place = scan.position[index];
      const kv::LayerTensors moved = reordered(layer, fact, place);
      const auto scores = kv::attention_sum_scores(moved, {kPositions, kWindow});
      const auto runs = kv::evicted_runs(setting, kPositions, scores);
      double success = 1;
      double mass = 0;
      for (const std::int64_t offset : fact.needed) {
        double read = 0;
        double kept = 0;
        for (std::size_t head = 0; head < moved.size(); ++head) {
          const std::vector<std::int64_t> queries(moved[head].q_positions.end() - 3, moved[head].q_positions.end());
          const kv::RowMatrix weights = kv::attention_weights(
              moved[head].q_post.bottomRows(3), queries, moved[head].k_post, kPositions, moved[head].attention_scale);
          const double attention = weights.col(place + offset).cast<double>().sum();
          read += attention;
          if (!kv::contains(runs[head], place + offset)) kept += attention;
        }
        success = std::min(success, kept / read);
        mass += kept / (2 * 3 * 2);  // heads, rows, needed tokens
      }
      EXPECT_NEAR(scan.success[index], success, 1e-5) << begin << " to " << place;
      EXPECT_NEAR(scan.mass[index], mass, 1e-6) << begin << " to " << place;
    }
  }
}

TEST(MovedFact, MustLieBeforeTheScoringQueries) {
  const kv::LayerTensors layer = kv::testing::random_layer(1, kPositions, 8, 5, 10000, true);
  const auto nothing = [](const kv::LayerScores& scores) { return std::vector<kv::PositionRuns>(scores.size()); };
  EXPECT_EQ(scan_moved_fact({layer}, fact_at(82), nothing).success.front(), 1);  // 82..87, queries from 88 on
  EXPECT_THROW((void)scan_moved_fact({layer}, fact_at(83), nothing), InputError);
}

}  // namespace
}  // namespace kvtide::loss

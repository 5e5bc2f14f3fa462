#include "loss/sampling_error.h"

#include <gtest/gtest.h>

#include <cmath>

#include "loss/hand_made_heads.h"
#include "loss/loss_meter.h"

namespace kvtide::loss {
namespace {

// The header's example, and its other end: two of two queries leave nothing to chance. Of three the correction is 1 - 2/3.
TEST(SamplingError, WorkedExample) {
  const std::vector<double> lost{0.1, 0.3};
  const std::vector<double> given{1, 1};
  EXPECT_NEAR(sampling_error(lost, given, 1'000'000'000), 0.1, 1e-9);
  EXPECT_NEAR(sampling_error(lost, given, 3), 0.1 * std::sqrt(1.0 / 3), 1e-12);
  EXPECT_EQ(sampling_error(lost, given, 2), 0);
}

// Queries that lose the same share of what they give agree, however much that is.
TEST(SamplingError, OnlyTheShareMatters) {
  const std::vector<double> lost{0.1, 0.2, 0.4};
  const std::vector<double> given{0.2, 0.4, 0.8};
  EXPECT_NEAR(sampling_error(lost, given, 100), 0, 1e-12);
}

TEST(SamplingError, OneQueryOutOfMoreTellsNothing) {
  EXPECT_TRUE(std::isnan(sampling_error(std::vector<double>{0.1}, std::vector<double>{1.0}, 5)));
  EXPECT_EQ(sampling_error(std::vector<double>{0.1}, std::vector<double>{1.0}, 1), 0);
  EXPECT_TRUE(std::isnan(sampling_error(std::vector<double>{0, 0}, std::vector<double>{0, 0}, 5)));
}

/// Two layers of two heads of two query heads; 400 queries behind 120 keys.
std::vector<kv::LayerTensors> layers() {
  std::vector<kv::LayerTensors> made(2);
  std::uint64_t seed = 1;
  for (auto& layer : made) {
    for (int head = 0; head < 2; ++head) {
      kv::HeadTensors tensors = white_head(120, 800, 16, seed++);
      tensors.group_size = 2;
      tensors.q_positions.resize(400);
      layer.push_back(std::move(tensors));
    }
  }
  return made;
}

std::vector<kv::LayerCache> caches_of(const std::vector<kv::LayerTensors>& layers, bool is_rounded) {
  std::vector<kv::LayerCache> caches;
  for (const auto& layer : layers) {
    kv::LayerCache& cache = caches.emplace_back();
    for (const auto& head : layer) {
      cache.heads.push_back(is_rounded ? round_rows(head, 4)
                                       : evict(head, [](std::int64_t j) { return j / 8 % 3 != 1; }));
    }
  }
  return caches;
}

AttentionReference reference_of(const std::vector<kv::LayerTensors>& layers, std::int64_t sample, std::uint64_t seed) {
  AttentionReference reference({0, 10'000, sample, seed});
  for (const auto& layer : layers) reference.add_layer(layer);
  return reference;
}

// Sampled against full attention: the losses of the queries are those of the whole measurement, whose mean they make; and in 60
// draws of 40 of 400 queries the full figure lies within two standard errors about 95 % of the time (binomial: 51 or fewer of 60
// have probability 0.004), within a quarter of one much more rarely (20 %; 25 or more of 60: 0.0003).
TEST(SampledQueries, ErrorBarHoldsTheFullFigure) {
  const auto tensors = layers();
  for (const bool is_rounded : {false, true}) {
    const auto caches = caches_of(tensors, is_rounded);
    const PositionLoss full = measure_loss(reference_of(tensors, 0, 1), caches, HeadReduction::reader);
    ASSERT_EQ(full.lost_of_query.size(), 400u);
    double mean = 0;
    for (const double lost : full.lost_of_query) mean += lost / 400;
    EXPECT_NEAR(mean, full.lost_attention, 1e-6 * mean);
    int within_two = 0;
    int within_quarter = 0;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      const AttentionReference reference = reference_of(tensors, 40, seed);
      const PositionLoss sampled = measure_loss(reference, caches, HeadReduction::reader);
      const HeadReference& head = reference.layers().front().front();
      EXPECT_EQ(head.num_queries, 40);
      EXPECT_EQ(head.num_candidates, 400);
      const double error = sampling_error(sampled.lost_of_query, attention_given(reference, 120), head.num_candidates);
      const double off = std::abs(sampled.lost_attention - full.lost_attention);
      within_two += off <= 2 * error ? 1 : 0;
      within_quarter += off <= error / 4 ? 1 : 0;
    }
    EXPECT_GE(within_two, 52) << is_rounded;
    EXPECT_LE(within_quarter, 24) << is_rounded;
  }
}

TEST(SampledQueries, AreTheSameInEveryHeadAndOthersForAnotherSeed) {
  const auto tensors = layers();
  const AttentionReference one = reference_of(tensors, 10, 1);
  EXPECT_EQ(one.layers()[0][0].row_positions, one.layers()[1][1].row_positions);
  EXPECT_EQ(one.layers()[0][0].row_positions, reference_of(tensors, 10, 1).layers()[0][0].row_positions);
  EXPECT_NE(one.layers()[0][0].row_positions, reference_of(tensors, 10, 2).layers()[0][0].row_positions);
  // As many as there are, or more: all of them.
  EXPECT_EQ(reference_of(tensors, 400, 1).layers()[0][0].row_positions,
            reference_of(tensors, 0, 1).layers()[0][0].row_positions);
  EXPECT_EQ(reference_of(tensors, 401, 1).layers()[0][0].num_queries, 400);
}

TEST(AttentionGiven, IsTheMeanOverHeadsOfWhatEachQueryGives) {
  const AttentionReference reference = reference_of(layers(), 0, 1);
  const std::vector<double> all = attention_given(reference, 120);
  ASSERT_EQ(all.size(), 400u);
  for (const double given : all) EXPECT_NEAR(given, 1, 1e-12);
  double expected = 0;
  for (const auto& layer : reference.layers()) {
    for (const HeadReference& head : layer) {
      expected += (head.weights(7, 0) + head.weights(400 + 7, 0)) / 8;  // 4 heads of 2 query heads
    }
  }
  EXPECT_NEAR(attention_given(reference, 1)[7], expected, 1e-12);
}

}  // namespace
}  // namespace kvtide::loss

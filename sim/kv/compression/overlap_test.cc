#include "kv/compression/overlap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/random.h"
#include "kv/compression/evicted_runs.h"
#include "kv/testing/random_layer.h"

namespace kvtide::kv {
namespace {

constexpr std::int64_t kHeadDim = 128;

/// Windows of 128 every 96 positions: 0..127, 96..223, 192..319, 288..415, and the protected 384..415.
constexpr std::int64_t kNumPositions = 416;

Compression overlapping(OverlapStorage storage, PartsPerMillion keep) {
  Compression setting;
  setting.block_size = 128;
  setting.partition.kind = PartitionKind::overlap;
  setting.partition.storage = storage;
  setting.sinks = 0;
  setting.window = 0;
  setting.stages = {Evict{.keep = keep}};
  return setting;
}

/// High where only the first and the third window look.
LayerScores first_and_third() {
  LayerScores scores{std::vector<double>(kNumPositions, 0.0)};
  scores[0][10] = 1;
  scores[0][250] = 1;
  return scores;
}

std::int64_t entries_in(const std::vector<Segment>& segments, std::int32_t bits) {
  std::int64_t sum = 0;
  for (const Segment& segment : segments) sum += segment.k_form.bits == bits ? segment.num_entries : 0;
  return sum;
}

HeadCache compressed(const Compression& setting, const LayerScores& scores) {
  return compress_layer(setting, kNumPositions, 1, kHeadDim, scores, nullptr).heads[0];
}

// Keep 3 of 5 windows: the protected one, the first and the third, which share no position:
// 128 + 128 + 32 positions, nothing twice.
TEST(Overlap, KeptWindowsApartCostWhatTheyCover) {
  for (const auto storage : {OverlapStorage::duplicate, OverlapStorage::union_once}) {
    const HeadCache cache = compressed(overlapping(storage, 600'000), first_and_third());
    EXPECT_EQ(entries_in(cache.segments, 16), 288);
    EXPECT_TRUE(cache.copies.empty());
    EXPECT_EQ(cache.num_blocks, 5);
    EXPECT_EQ(cache.protected_blocks, 1);
  }
}

// The same windows: 96..127 and 288..319 belong to dropped windows and survive in a kept window's halo, in 4 bits.
TEST(Overlap, QuantizedHaloHoldsTheNeighboursPartInFourBits) {
  const HeadCache cache = compressed(overlapping(OverlapStorage::quantized_halo, 600'000), first_and_third());
  EXPECT_EQ(entries_in(cache.segments, 16), 96 + 96 + 32);
  EXPECT_EQ(entries_in(cache.segments, 4), 64);
  Bytes metadata = 0;
  for (const Segment& segment : cache.segments) metadata += segment.k_metadata;
  // 4 B a row of 128 four-bit codes (64 B): 68 B * 8 / 128 = 4.25 bits an element.
  EXPECT_EQ(metadata, 64 * 4u);
  for (const Segment& segment : cache.segments) {
    if (segment.k_form.bits == 4) EXPECT_EQ(segment.k_form.row_bytes, 64);
  }
  EXPECT_TRUE(cache.copies.empty());
}

// Everything kept: four shared stretches of 32 positions.
TEST(Overlap, CopiesByStorage) {
  const LayerScores scores{std::vector<double>(kNumPositions, 1.0)};
  const HeadCache twice = compressed(overlapping(OverlapStorage::duplicate, 1'000'000), scores);
  EXPECT_EQ(entries_in(twice.segments, 16), kNumPositions);
  EXPECT_EQ(entries_in(twice.copies, 16), 4 * 32);
  EXPECT_TRUE(compressed(overlapping(OverlapStorage::union_once, 1'000'000), scores).copies.empty());
  const HeadCache halo = compressed(overlapping(OverlapStorage::quantized_halo, 1'000'000), scores);
  EXPECT_EQ(entries_in(halo.segments, 16), kNumPositions);
  EXPECT_EQ(entries_in(halo.copies, 4), 4 * 32);
  // The pages of copies are read: 416 entries are 26 pages of 16, 128 copies 8 more.
  EXPECT_EQ(packed_pools(twice, 16).k[0].num_pages, 34);
}

// loss-metrics.md section 6: with windows kept at rate f at random, a position is kept when any of its windows is:
// f + d f (1 - f) of the cache, d = 1/3; and duplicate stores 4/3 f.
TEST(Overlap, UnionCostsAtMostATwelfthOfTheCache) {
  constexpr std::int64_t kLong = 96 * 2000 + 32;
  RandomStream random(5, "test.overlap");
  LayerScores scores{std::vector<double>(kLong, 0.0)};
  for (std::int64_t position = 48; position < kLong; position += 96) {  // one draw a window, outside shared stretches
    scores[0][static_cast<std::size_t>(position)] = random.uniform();
  }
  for (const double f : {0.25, 0.5, 0.75}) {
    const Compression setting = overlapping(OverlapStorage::duplicate, static_cast<PartsPerMillion>(f * 1e6));
    const HeadCache cache = compress_layer(setting, kLong, 1, kHeadDim, scores, nullptr).heads[0];
    const auto kept = static_cast<double>(entries_in(cache.segments, 16)) / kLong;
    const auto copied = static_cast<double>(entries_in(cache.copies, 16)) / kLong;
    // 2,000 windows: a pair's outcome has sd <= 1/2, so the share of doubly kept zones is good to 0.5 / sqrt(2000) = 0.011,
    // of the cache a third of that; three sd.
    EXPECT_NEAR(kept, f + f * (1 - f) / 3, 0.012) << f;
    EXPECT_NEAR(kept + copied, f * 4 / 3, 0.012) << f;
  }
}

// Section 6 again: half of the cache stored once, f + f (1 - f) / 3 = 1/2, allows f = 2 - sqrt(5/2) = 0.419. A position that one
// window holds is lost with probability 1 - f = 58.1 %, one that two hold with (1 - f)^2 = 33.8 %, any with 1/2: overlap moves
// the loss to the middles and does not lower it. Errors as above: 0.5 / sqrt(2000) = 0.011, three of them.
TEST(Overlap, AtEqualMemoryTheMeanLossStaysAndMovesToTheMiddles) {
  constexpr std::int64_t kStride = 96;
  constexpr std::int64_t kHalo = 32;
  constexpr std::int64_t kLong = kStride * 2000 + kHalo;
  RandomStream random(9, "test.overlap");
  LayerScores scores{std::vector<double>(kLong, 0.0)};
  for (std::int64_t position = 48; position < kLong; position += kStride) {
    scores[0][static_cast<std::size_t>(position)] = random.uniform();
  }
  const double rate = 2 - std::sqrt(2.5);
  const Compression setting = overlapping(OverlapStorage::union_once, static_cast<PartsPerMillion>(rate * 1e6));
  const PositionRuns evicted = evicted_runs(setting, kLong, scores)[0];
  double doubly = 0;
  double singly = 0;
  for (std::int64_t position = kStride; position < kLong - kStride; ++position) {
    if (contains(evicted, position)) (position % kStride < kHalo ? doubly : singly) += 1;
  }
  constexpr double kStrides = (kLong - 2 * kStride) / static_cast<double>(kStride);
  EXPECT_NEAR(singly / (kStrides * (kStride - kHalo)), 0.581, 0.03);
  EXPECT_NEAR(doubly / (kStrides * kHalo), 0.338, 0.03);
  EXPECT_NEAR(static_cast<double>(num_positions_of(evicted)) / kLong, 0.5, 0.012);
}

TEST(Overlap, RunsOfTheFastPathAreTheCachesGaps) {
  RandomStream random(11, "test.overlap");
  LayerScores scores(2);
  for (auto& head : scores) {
    for (std::int64_t position = 0; position < kNumPositions; ++position) head.push_back(random.uniform());
  }
  for (const auto storage : {OverlapStorage::duplicate, OverlapStorage::union_once, OverlapStorage::quantized_halo,
                             OverlapStorage::score_only}) {
    for (const std::int64_t offset : {0, 5, 95}) {
      Compression setting = overlapping(storage, 500'000);
      setting.grid_offset = offset;
      const auto runs = evicted_runs(setting, kNumPositions, scores);
      const LayerCache cache = compress_layer(setting, kNumPositions, 2, kHeadDim, scores, nullptr);
      for (std::size_t head = 0; head < 2; ++head) {
        std::int64_t entries = 0;
        for (const Segment& segment : cache.heads[head].segments) {
          entries += segment.num_entries;
          EXPECT_FALSE(contains(runs[head], segment.begin));
          EXPECT_FALSE(contains(runs[head], segment.end - 1));
        }
        EXPECT_EQ(entries + num_positions_of(runs[head]), kNumPositions);
      }
    }
  }
}

// Blocks of 4, halo 0.5 * 4 / 2 = 1 position on either side. Scores 1..8: block 0 gets 1+2+3+4 and 5; block 1 gets
// 5+6+7+8 and 4.
TEST(Overlap, ScoreOnlyCountsHalfAHaloOnEitherSide) {
  Compression setting;
  setting.block_size = 4;
  setting.partition.kind = PartitionKind::overlap;
  setting.partition.storage = OverlapStorage::score_only;
  setting.partition.overlap_ppm = 500'000;
  const LayerScores widened = scores_with_halo(setting, 8, {{1, 2, 3, 4, 5, 6, 7, 8}});
  EXPECT_EQ(std::accumulate(widened[0].begin(), widened[0].begin() + 4, 0.0), 15);
  EXPECT_EQ(std::accumulate(widened[0].begin() + 4, widened[0].end(), 0.0), 30);
}

// Blocks of position 0, of 1 to 4 and of 5 to 7: the second gets 2 + 3 + 4 + 5, the first position's 1 and 6.
TEST(Overlap, TheHaloReachesTheFirstPosition) {
  Compression setting;
  setting.block_size = 4;
  setting.grid_offset = 3;
  setting.partition.kind = PartitionKind::overlap;
  setting.partition.storage = OverlapStorage::score_only;
  setting.partition.overlap_ppm = 500'000;
  const LayerScores widened = scores_with_halo(setting, 8, {{1, 2, 3, 4, 5, 6, 7, 8}});
  EXPECT_EQ(widened[0][0], 1 + 2);
  EXPECT_EQ(std::accumulate(widened[0].begin() + 1, widened[0].begin() + 5, 0.0), 21);
}

// A position is read from the window in which it lies deeper: pools keep the mean of the members they are read for.
TEST(Overlap, PooledWindowsAreReadOnce) {
  const LayerTensors layer = testing::random_layer(1, kNumPositions, 8, 9);
  Compression setting = overlapping(OverlapStorage::union_once, 1'000'000);
  setting.stages = {Pool{.width = 4}};
  const HeadCache cache = compress_layer(setting, kNumPositions, 1, 8, {}, &layer).heads[0];
  for (const std::int32_t entry : cache.entries->entry_of) EXPECT_GE(entry, 0);
  // Positions 0..383 in pools of 4, the protected 384..415 one by one.
  EXPECT_EQ(cache.entries->k.rows(), 384 / 4 + 32);
}

}  // namespace
}  // namespace kvtide::kv

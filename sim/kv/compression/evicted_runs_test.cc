#include "kv/compression/evicted_runs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"

namespace kvtide::kv {
namespace {

constexpr std::int64_t kNumPositions = 300;

Compression setting_of(std::int64_t block_size, std::int64_t grid_offset, std::vector<Stage> stages) {
  Compression setting;
  setting.block_size = block_size;
  setting.grid_offset = grid_offset;
  setting.sinks = 2;
  setting.window = 20;
  setting.stages = std::move(stages);
  return setting;
}

/// Three heads; scores of few values, so that blocks tie, or of many.
LayerScores random_scores(std::uint64_t num_values) {
  RandomStream random(7, "test.evicted_runs");
  LayerScores scores(3);
  for (auto& of_head : scores) {
    for (std::int64_t position = 0; position < kNumPositions; ++position) {
      of_head.push_back(static_cast<double>(random.below(num_values)) / 7.0);
    }
  }
  return scores;
}

/// What the cache that compress_layer() makes does not hold.
PositionRuns missing(const HeadCache& cache) {
  PositionRuns runs;
  std::int64_t next = 0;
  for (const Segment& segment : cache.segments) {
    if (segment.begin > next) runs.push_back({next, segment.begin});
    next = segment.end;
  }
  return runs;
}

// Six positions, blocks of two with scores 1, 5, 3: half of three blocks keeps two (3 - floor(1.5)), the first goes.
TEST(EvictedRuns, LowestBlockGoes) {
  Compression setting = setting_of(2, 0, {Evict{}});
  setting.sinks = 0;
  setting.window = 0;
  EXPECT_EQ(evicted_runs(setting, 6, {{0, 1, 2, 3, 3, 0}}), (std::vector<PositionRuns>{{{0, 2}}}));
  // A sink protects it; the next lowest goes instead.
  setting.sinks = 1;
  EXPECT_EQ(evicted_runs(setting, 6, {{0, 1, 2, 3, 3, 0}}), (std::vector<PositionRuns>{{{4, 6}}}));
}

// T13: each of N / B blocks stays with probability f = 1/2, so the kept mass of uniform attention, the share of positions, has
// sd sqrt(f (1 - f) B / N): 1/16, 0.088 and 1/8 at N = 4,096 and B = 64, 128, 256. Of 2,000 masks an sd is good to 1 / sqrt(4000)
// = 1.6 %, its own sd; 6 % are nearly four. The mean 1/2 is good to 0.125 / sqrt(2000) = 0.003.
TEST(EvictedRuns, KeptMassOfRandomBlocksSpreadsWithTheRootOfTheirSize) {
  constexpr std::int64_t kLong = 4096;
  constexpr int kMasks = 2000;
  Evict at_random;
  at_random.block_score = BlockScore::mean;
  at_random.threshold = 0.5;
  RandomStream random(13, "test.kept_mass");
  for (const std::int64_t block_size : {64, 128, 256}) {
    Compression setting = setting_of(block_size, 0, {at_random});
    setting.sinks = 0;
    setting.window = 0;
    double sum = 0;
    double squares = 0;
    for (int mask = 0; mask < kMasks; ++mask) {
      LayerScores scores(1);
      for (std::int64_t begin = 0; begin < kLong; begin += block_size) {
        const double drawn = random.uniform() < 0.5 ? 0 : 1;
        scores[0].insert(scores[0].end(), static_cast<std::size_t>(block_size), drawn);
      }
      const auto evicted = num_positions_of(evicted_runs(setting, kLong, scores)[0]);
      const double kept = 1 - static_cast<double>(evicted) / kLong;
      sum += kept;
      squares += (kept - 0.5) * (kept - 0.5);
    }
    const double sd = std::sqrt(0.25 * static_cast<double>(block_size) / kLong);
    EXPECT_NEAR(sum / kMasks, 0.5, 0.01) << block_size;
    EXPECT_NEAR(std::sqrt(squares / kMasks), sd, 0.06 * sd) << block_size;
  }
}

TEST(EvictedRuns, NeighbouringBlocksAreOneRun) {
  Compression setting = setting_of(2, 0, {Evict{}});
  setting.sinks = 0;
  setting.window = 0;
  // Scores 9, 1, 1, 9: two of four go, together positions 2..5.
  EXPECT_EQ(evicted_runs(setting, 8, {{9, 0, 1, 0, 0, 1, 9, 0}}), (std::vector<PositionRuns>{{{2, 6}}}));
}

TEST(EvictedRuns, EqualWhatTheCacheDoesNotHold) {
  for (const std::uint64_t num_values : {2U, 1'000'000U}) {
    const LayerScores scores = random_scores(num_values);
    for (const HeadScope heads : {HeadScope::per_head, HeadScope::shared}) {
      for (const Granularity granularity : {Granularity::block, Granularity::token}) {
        for (const PartsPerMillion keep : {100'000, 500'000, 900'000, 1'000'000}) {
          const Evict stage{.scorer = "attention_sum", .granularity = granularity, .keep = keep, .heads = heads};
          for (const auto& [block_size, grid_offset] : {std::pair{1, 0}, {7, 3}, {32, 31}, {64, 0}, {512, 5}}) {
            for (const std::vector<Stage>& stages : {std::vector<Stage>{stage}, std::vector<Stage>{stage, stage}}) {
              const Compression setting = setting_of(block_size, grid_offset, stages);
              const LayerCache cache = compress_layer(setting, kNumPositions, 3, 16, scores, nullptr);
              const std::vector<PositionRuns> runs = evicted_runs(setting, kNumPositions, scores);
              ASSERT_EQ(runs.size(), 3U);
              for (std::size_t head = 0; head < 3; ++head) {
                ASSERT_EQ(runs[head], missing(cache.heads[head]))
                    << "block_size " << block_size << ", grid_offset " << grid_offset << ", keep " << keep << ", head "
                    << head;
              }
            }
          }
        }
      }
    }
  }
}

TEST(EvictedRuns, OnlyStacksThatEvictAreTaken) {
  EXPECT_TRUE(only_evicts(setting_of(16, 0, {})));
  EXPECT_TRUE(only_evicts(setting_of(16, 0, {Evict{}, Evict{}})));
  EXPECT_FALSE(only_evicts(setting_of(16, 0, {Evict{}, Quantize{}})));
  EXPECT_EQ(evicted_runs(setting_of(16, 0, {}), 40, {std::vector<double>(40)}), (std::vector<PositionRuns>{{}}));
}

TEST(EvictedRuns, RefuseWhatCompressLayerRefuses) {
  EXPECT_THROW((void)evicted_runs(setting_of(16, 16, {Evict{}}), 40, {std::vector<double>(40)}), InputError);
  EXPECT_NO_THROW((void)evicted_runs(setting_of(16, 15, {Evict{}}), 40, {std::vector<double>(40)}));
}

}  // namespace
}  // namespace kvtide::kv

#include "kv/cache_schedule.h"

#include <gtest/gtest.h>

#include "kv/cache_timeline.h"

namespace kvtide::kv {
namespace {

Model one_layer() {
  Model model;
  model.num_layers = 1;
  model.num_query_heads = 1;
  model.num_kv_heads = 1;
  model.head_dim = 16;
  return model;
}

Compression newest_tokens() {
  Compression setting;
  setting.block_size = 1;
  setting.sinks = 0;
  setting.window = 0;
  setting.stages = {Evict{.scorer = "newest", .granularity = Granularity::token}};
  return setting;
}

RecordedScores no_scores() {
  RecordedScores scores;
  scores.num_model_layers = scores.num_kv_heads = 1;
  scores.layers = {0};
  return scores;
}
const RecordedScores kNoScores = no_scores();

std::int64_t entries(const ServedCache& cache) {
  std::int64_t sum = 0;
  for (const Segment& segment : cache.layers[0].cache.heads[0].segments) sum += segment.num_entries;
  return sum;
}

TEST(CacheSchedule, ATargetIsMetExactlyToken) {
  for (const std::int64_t target : {1, 7, 1000, 4095}) {
    for (const std::int64_t n : {4096, 32768, 131071}) {
      const Compression setting = at_target(newest_tokens(), {.decode_target = target, .decode_every = 1}, n);
      EXPECT_EQ(entries(serve(one_layer(), setting, kNoScores, n)), target) << n;
    }
  }
}

TEST(CacheSchedule, AContextWithinTheTargetIsLeftAlone) {
  const CacheSchedule schedule{.decode_target = 100, .decode_every = 10};
  EXPECT_EQ(entries(serve(one_layer(), at_target(newest_tokens(), schedule, 100), kNoScores, 100)), 100);
  EXPECT_EQ(entries(serve(one_layer(), at_target(newest_tokens(), schedule, 101), kNoScores, 101)), 100);
}

// Blocks of 16: a target of 40 is 2 blocks of the 8 that 128 positions are.
TEST(CacheSchedule, ATargetInBlocksIsWholeBlocks) {
  Compression setting = newest_tokens();
  setting.block_size = 16;
  setting.stages = {Evict{.scorer = "newest"}};
  const Compression at = at_target(setting, {.decode_target = 40, .decode_every = 1}, 128);
  EXPECT_EQ(entries(serve(one_layer(), at, kNoScores, 128)), 32);
}

// Target 8, every 4: steps read 9 10 11 12, then 9 10 11 12 again; the compression chooses 8 from 12.
TEST(CacheSchedule, DecodeSwingsBetweenTheTargetAndOnePeriodMore) {
  CacheTimeline cache(
      {.model = one_layer(), .setting = newest_tokens(), .schedule = {.decode_target = 8, .decode_every = 4}},
      kNoScores, 100);
  EXPECT_EQ(entries(cache.held()), 8);
  std::vector<std::int64_t> read, held, chosen_from;
  for (int step = 0; step < 9; ++step) {
    const CacheEvent event = cache.append();
    chosen_from.push_back(event.recompressed_positions);
    read.push_back(cache.attention()[0].work.tasks[0].num_entries);
    held.push_back(entries(cache.held()));
    EXPECT_EQ(cache.compression_work(event).num_blocks, event.recompressed_positions);
  }
  EXPECT_EQ(read, (std::vector<std::int64_t>{9, 10, 11, 12, 9, 10, 11, 12, 9}));
  EXPECT_EQ(held, read);
  EXPECT_EQ(chosen_from, (std::vector<std::int64_t>{0, 0, 0, 0, 12, 0, 0, 0, 12}));
  EXPECT_EQ(cache.num_positions(), 109);
}

}  // namespace
}  // namespace kvtide::kv

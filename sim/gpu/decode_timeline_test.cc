#include "gpu/decode_timeline.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "gpu/testing/llama_on_h100.h"

namespace kvtide::gpu {
namespace {

using testing_support::h100;

constexpr std::int64_t kBlockSize = 16;
constexpr DecoderShape kShape{.num_layers = 2,
                              .hidden_size = 512,
                              .num_query_heads = 8,
                              .num_kv_heads = 2,
                              .head_dim = 64,
                              .intermediate_size = 1024,
                              .vocab_size = 1000};

/// A block becomes eligible whenever the cache, 100 tokens long at step 0, reaches a multiple of 16.
IterationWork growing_cache(std::int64_t step_index) {
  const std::int64_t num_entries = 100 + step_index;
  const PageStream stream{static_cast<Bytes>(num_entries) * 128, 2048};
  DecodeAttentionWork attention;
  attention.tasks.push_back({.streams = {stream, stream}, .num_entries = num_entries, .count = 2});
  attention.head_dim = 64;
  IterationWork work{.batch = 1, .attention = {attention}, .compression = {}};
  if (num_entries % kBlockSize == 0) {
    work.compression.push_back({.num_blocks = 2, .read_bytes = 8192, .write_bytes = 2048, .chunk_bytes = 2048});
  }
  return work;
}

// 100 + step = 112, 128, ... at steps 12, 28, 44, 60.
TEST(DecodeTimeline, StepTimeSpikesWheneverABlockFills) {
  Gpu gpu = h100();
  const std::vector<DecodeStepRecord> records = decode_timeline(gpu, kShape, 64, growing_cache);
  ASSERT_EQ(records.size(), 64u);
  for (std::size_t step = 1; step < records.size(); ++step) {
    const bool fills = step % kBlockSize == 12;
    EXPECT_EQ(records[step].compress_duration.count() > 0, fills) << step;
    if (fills) {
      EXPECT_GT(records[step].duration, records[step - 1].duration + records[step].compress_duration / 2) << step;
    }
  }
}

TEST(DecodeTimeline, StepsFollowOneAnotherWithoutGaps) {
  Gpu gpu = h100();
  const std::vector<DecodeStepRecord> records = decode_timeline(gpu, kShape, 10, growing_cache);
  Picoseconds expected{0};
  for (const DecodeStepRecord& record : records) {
    EXPECT_EQ(record.start, expected) << record.step_index;
    EXPECT_EQ(record.duration, time_iteration(gpu, kShape, growing_cache(record.step_index)).duration);
    expected += record.duration;
  }
}

TEST(DecodeTimeline, RunsBesideOtherProcesses) {
  Gpu gpu = h100();
  engine::Simulation simulation;
  std::vector<DecodeStepRecord> first, second;
  simulation.start(decode_steps(simulation, gpu, kShape, 3, growing_cache, first));
  simulation.start(decode_steps(simulation, gpu, kShape, 5, growing_cache, second));
  simulation.run();
  EXPECT_EQ(first.size(), 3u);
  EXPECT_EQ(second.size(), 5u);
  EXPECT_EQ(simulation.now(), second.back().start + second.back().duration);
}

TEST(DecodeTimeline, BadWorkReachesTheCaller) {
  Gpu gpu = h100();
  EXPECT_THROW((void)decode_timeline(gpu, kShape, 3, [](std::int64_t) { return IterationWork{}; }), InputError);
  EXPECT_TRUE(decode_timeline(gpu, kShape, 0, growing_cache).empty());
}

}  // namespace
}  // namespace kvtide::gpu

#include "serving/cache_growth.h"

#include <gtest/gtest.h>

#include "serving/scheduler.h"

namespace kvtide::serving {
namespace {

// 1,092 = 68 + 8 x 128: 512 of 1,024 stay. One before the ninth block is full 127 more are held; then 64 of its 128 stay.
TEST(CacheGrowth, BlocksAreCompressedWhenTheyAreFull) {
  const CacheGrowth growth{.keep_ratio = 0.5, .always_kept = 68, .interval = 128};
  EXPECT_EQ(growth.held(68), 68);
  EXPECT_EQ(growth.held(195), 195);
  EXPECT_EQ(growth.held(196), 132);
  EXPECT_EQ(growth.held(1092), 580);
  EXPECT_EQ(growth.held(1219), 707);
  EXPECT_EQ(growth.held(1220), 644);
  EXPECT_EQ(growth.steps_to_burst(1092), 128);
  EXPECT_EQ(growth.steps_to_burst(1219), 1);
  EXPECT_EQ(growth.steps_to_burst(60), 136);
}

// 1,219 tokens hold 707 and the next one completes the ninth block. 128 tokens later a tenth: 644 + 128 = 772. A prompt is held whole
// until it is complete.
TEST(CacheGrowth, MostIsHeldBeforeABlockIsCompressed) {
  const CacheGrowth growth{.keep_ratio = 0.5, .always_kept = 68, .interval = 128};
  EXPECT_EQ(growth.most_decoding(1219), 707);
  EXPECT_EQ(growth.most_decoding(1220), 708);
  EXPECT_EQ(growth.most_decoding(1283), 708);
  EXPECT_EQ(growth.most_decoding(1285), 709);
  EXPECT_EQ(growth.most_decoding(1348), 772);
  EXPECT_EQ(growth.most_entries(700, 1220), 708);
  EXPECT_EQ(growth.most_entries(709, 1220), 709);
  EXPECT_EQ(growth.most_entries(1220, 1220), 1220);
  EXPECT_EQ(growth.most_blocks(700, 1220, 8192, 16), 45);  // 708 / 16 = 44.25
  EXPECT_EQ(CacheGrowth{}.most_entries(700, 1220), 1220);
}

// Field case C12: 10 layers keep all, 50 a window of 1,024; 4,096 B a layer and token, so an entry of the ten has 40,960 B and a token
// of the fifty weighs five of them. 128 tokens: 768 entries, 30 MiB (205 MiB with whole windows). 65,536: 70,656 entries, 2.70 GiB (15 GiB
// without windows).
TEST(CacheGrowth, WindowsHoldNoMoreThanTheirTokens) {
  const CacheGrowth growth{.window = 1024, .window_weight = 5};
  const auto bytes = [&](std::int64_t context) {
    return (growth.held(context) + growth.window_entries(context)) * 40960;
  };
  EXPECT_EQ(bytes(128), std::int64_t{30} << 20);
  EXPECT_NEAR(static_cast<double>(bytes(65536)) / (1 << 30), 2.70, 0.005);
}

// Field case C1: all layers have a window of 4,096; 137,407 pages / 769 = 178.68 sequences of 16,384 tokens, not 134.19. A short
// sequence needs its own pages only.
TEST(CacheGrowth, WindowsAloneNeedThePagesOfTheirTokensAndOneStep) {
  const CacheGrowth growth{.has_whole_layers = false, .window = 4096, .window_weight = 1};
  EXPECT_EQ(growth.most_blocks(16384, 8192, 16), 769);
  EXPECT_NEAR(137407.0 / 769, 178.68, 0.005);
  EXPECT_EQ(growth.most_blocks(100, 8192, 16), 7);
  EXPECT_EQ(CacheGrowth{}.most_blocks(16384, 8192, 16), 1024);
}

// Prompt 32 in blocks of 4, all 8 held while it is computed; keep a quarter of blocks of 8: 32 -> 8 tokens, 2 blocks; the first
// token makes 9 of them: a third block. Compression at context 40 gives back what tokens 33 to 40 took.
TEST(CacheGrowth, BlocksComeBackWhenThePromptIsCompleteAndNotBefore) {
  Scheduler scheduler(
      {.num_blocks = 101, .block_size = 4, .max_num_batched_tokens = 16, .growth = {.keep_ratio = 0.25, .interval = 8}},
      0);
  scheduler.add(0, {.input_tokens = 32, .output_tokens = 20, .shared_blocks = {}});
  (void)scheduler.begin_step();
  (void)scheduler.finish_step();
  EXPECT_EQ(scheduler.num_free_blocks(), 96);  // half of the prompt: 4 blocks
  const StepShape last_chunk = scheduler.begin_step();
  EXPECT_EQ(last_chunk.compressed_tokens, 32);
  EXPECT_EQ(scheduler.num_free_blocks(), 92);
  (void)scheduler.finish_step();
  EXPECT_EQ(scheduler.num_free_blocks(), 98);
  EXPECT_EQ(scheduler.counters().emptied_blocks, 6);
  for (int step = 33; step <= 39; ++step) {
    const StepShape decode = scheduler.begin_step();
    EXPECT_EQ(decode.decode_kv_tokens, 8 + step - 32) << step;
    EXPECT_EQ(decode.compressed_tokens, 0) << step;
    (void)scheduler.finish_step();
  }
  EXPECT_EQ(scheduler.num_free_blocks(), 96);  // 15 tokens
  EXPECT_EQ(scheduler.begin_step().compressed_tokens, 8);
  (void)scheduler.finish_step();
  EXPECT_EQ(scheduler.num_free_blocks(), 97);  // 10 tokens
}

}  // namespace
}  // namespace kvtide::serving

// Residual windows: which positions wait in fp16, and when they are flushed. Field case Q4.

#include "kv/compression/quantize.h"

#include <gtest/gtest.h>

#include "kv/cache_layout.h"
#include "kv/cache_timeline.h"

namespace kvtide::kv {
namespace {

Compression with_residual(std::int64_t block_size, std::int64_t residual, std::int64_t residual_start) {
  Quantize stage;
  stage.group = block_size;
  stage.v_axis = GroupAxis::channel;
  stage.residual = residual;
  stage.residual_start = residual_start;
  Compression setting;
  setting.block_size = block_size;
  setting.sinks = 0;
  setting.window = 0;
  setting.stages = {stage};
  return setting;
}

std::int64_t num_fp16(const std::vector<PagePool>& pools) {
  std::int64_t count = 0;
  for (const PagePool& pool : pools) count += pool.form.kind == StoredForm::Kind::fp16 ? pool.num_entries : 0;
  return count;
}

// 200 positions, residual 128. KIVI: 200 mod 128 = 72 keys and the last 128 values in fp16. A prompt stored at once: none.
TEST(Quantize, ResidualFromThePromptStoresTheWholePrompt) {
  const auto pools = [](std::int64_t start) {
    return packed_pools(compress_layer(with_residual(8, 128, start), 200, 1, 8, {}, nullptr).heads.front(), 8);
  };
  EXPECT_EQ(num_fp16(pools(0).k), 72);
  EXPECT_EQ(num_fp16(pools(0).v), 128);
  EXPECT_EQ(num_fp16(pools(kFromPrompt).k), 0);
  EXPECT_EQ(num_fp16(pools(kFromPrompt).v), 0);
  // 40 tokens after a prompt of 160 wait, keys and values alike.
  EXPECT_EQ(num_fp16(pools(160).k), 40);
  EXPECT_EQ(num_fp16(pools(160).v), 40);
}

// T17: 2 bits, and 32 bits of scale and zero point for each 32: 3 bits. Of lengths that residual 128 divides no key and 128 values
// are in fp16, 13 bits more each: 3 + 13 * 128 / (2 n) over K and V, which is 3.41, 3.20 and 3.03.
TEST(Quantize, EffectiveBitsFallWithTheLength) {
  constexpr std::int64_t kHeadDim = 128;
  const auto bits_at = [](std::int64_t num_positions) {
    Compression setting = with_residual(128, 128, 0);
    auto& stage = std::get<Quantize>(setting.stages.front());
    stage.k_format = stage.v_format = "int2";
    stage.group = 32;
    stage.v_axis = GroupAxis::token;
    const LayerCache layer = compress_layer(setting, num_positions, 1, kHeadDim, {}, nullptr);
    const Bytes bytes = layer_bytes(layer_pools(layer, 16, CacheLayout::per_head)).total;
    return static_cast<double>(bytes) * 8 / static_cast<double>(2 * num_positions * kHeadDim);
  };
  EXPECT_EQ(bits_at(2048), 3 + 0.40625);
  EXPECT_EQ(bits_at(4096), 3 + 0.203125);
  EXPECT_EQ(bits_at(32768), 3 + 0.025390625);
}

std::vector<std::int64_t> flush_steps(std::int64_t prompt, std::int64_t residual, std::int64_t start) {
  Model model;
  model.num_layers = 1;
  model.num_query_heads = model.num_kv_heads = 1;
  model.head_dim = 8;
  CacheTimeline timeline({model, with_residual(4, residual, start), 4, CacheLayout::per_head, 1}, {}, prompt);
  std::vector<std::int64_t> steps;
  for (std::int64_t step = 1; step <= 4 * residual; ++step) {
    if (timeline.append().flushed_positions > 0) steps.push_back(step);
  }
  return steps;
}

// Q4's other policy: the prompt is stored at once, flushes at decode steps 32, 64, ... whatever its length.
TEST(Quantize, ResidualFromThePromptFlushesOnItsOwnGrid) {
  EXPECT_EQ(flush_steps(100, 32, kFromPrompt), (std::vector<std::int64_t>{32, 64, 96, 128}));
  EXPECT_EQ(flush_steps(101, 32, kFromPrompt), (std::vector<std::int64_t>{32, 64, 96, 128}));
}

// Case Q5 as the machine sees it. KIVI, residual 128, 8 channels, 16-bit elements: every step behind the 128th reads one
// value (8 * 2 B); the step at a multiple of 128 reads 128 keys besides (128 * 8 * 2 B). From a prompt of 100: step 28, 156.
// Writing: 4 bits and, a value in 2 groups of 4 channels, 4 B of scale and zero point each: 4 + 8 B; 128 keys in groups of 4
// positions: 128 * 4 B and 32 * 8 groups * 4 B.
TEST(Quantize, FlushesAreWorkOfTheirSteps) {
  Compression setting = with_residual(4, 128, 0);
  std::get<Quantize>(setting.stages.front()).v_axis = GroupAxis::token;
  std::get<Quantize>(setting.stages.front()).group = 4;
  Model model;
  model.num_layers = model.num_query_heads = model.num_kv_heads = 1;
  model.head_dim = 8;
  CacheTimeline timeline({model, setting, 4, CacheLayout::per_head, 1}, {}, 100);
  constexpr Bytes kOneValue = 8 * 2;
  constexpr Bytes kKeys = 128 * 8 * 2;
  for (std::int64_t step = 1; step <= 200; ++step) {
    const CacheEvent event = timeline.append();
    const gpu::CompressBlocksWork work = timeline.compression_work(event);
    const bool is_flush = step == 28 || step == 156;
    EXPECT_EQ(work.read_bytes, (step > 28 ? kOneValue : 0) + (is_flush ? kKeys : 0)) << step;
    EXPECT_EQ(work.write_bytes, (step > 28 ? 4U + 2 * 4U : 0U) + (is_flush ? 128U * 4U + 32U * 8U * 4U : 0U)) << step;
    EXPECT_EQ(work.num_blocks > 0, step >= 28) << step;
    EXPECT_EQ(timeline.compressed_blocks(event), is_flush ? 32 : 0) << step;
  }
}

}  // namespace
}  // namespace kvtide::kv

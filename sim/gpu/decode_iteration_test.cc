#include "gpu/decode_iteration.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "gpu/constant_rate_memory.h"

namespace kvtide::gpu {
namespace {

Gpu h100() {
  GpuProfile profile = load_gpu_profile("h100-sxm");
  auto memory = std::make_unique<ConstantRateMemory>(profile.bandwidth, 0.92);
  return {std::move(profile), std::move(memory)};
}

// Llama-3.1-8B: 32 x 2 x 8 x 128 x 2 B = 131,072 B a token.
constexpr DecoderShape kLlama{.num_layers = 32,
                              .hidden_size = 4096,
                              .num_query_heads = 32,
                              .num_kv_heads = 8,
                              .head_dim = 128,
                              .intermediate_size = 14336,
                              .vocab_size = 128256};
// Qwen3-8B: 36 x 2 x 8 x 128 x 2 B = 147,456 B a token.
constexpr DecoderShape kQwen{.num_layers = 36,
                             .hidden_size = 4096,
                             .num_query_heads = 32,
                             .num_kv_heads = 8,
                             .head_dim = 128,
                             .intermediate_size = 12288,
                             .vocab_size = 151936};

DecodeStepWork step(const DecoderShape& shape, std::int64_t batch, std::int64_t num_entries, std::int64_t bits) {
  const Bytes entry_bytes = static_cast<Bytes>(shape.head_dim * bits / 8);
  const PageStream stream{static_cast<Bytes>(num_entries) * entry_bytes, 16 * entry_bytes};
  DecodeAttentionWork attention;
  attention.tasks.push_back(
      {.streams = {stream, stream}, .num_entries = num_entries, .count = batch * shape.num_kv_heads});
  attention.query_heads_per_task = shape.num_query_heads / shape.num_kv_heads;
  attention.head_dim = shape.head_dim;
  attention.math_bits = bits;
  return {.batch = batch, .attention = {attention}, .compression = {}};
}

Bytes bytes_of(const DecodeIteration& iteration, const std::string& kernel_class) {
  for (const KernelClassTime& sums : iteration.by_class) {
    if (sums.kernel_class == kernel_class) return sums.hbm_bytes;
  }
  return 0;
}

// Field case (hahnyuan/LLM-Viewer#12): 32 query heads on 8 KV heads, 8,192 tokens x 131,072 B = 1 GiB a step, not 4.
TEST(DecodeIteration, GroupedQueriesReadKvHeadsOnce) {
  Gpu gpu = h100();
  EXPECT_EQ(bytes_of(decode_iteration(gpu, kLlama, step(kLlama, 1, 8192, 16)), "attention"), kGiB);
}

// Field case (vllm-project/vllm#42058): 16.4 GB of weights, 8 sequences: fp8 cannot gain more than (W + K) / (W + K /
// 2).
TEST(DecodeIteration, Fp8GainsLessThanTheByteBound) {
  Gpu gpu = h100();
  const std::vector<std::pair<std::int64_t, double>> bounds{
      {1024, 1.036}, {4096, 1.128}, {8192, 1.228}, {16384, 1.371}};
  for (const auto& [tokens, bound] : bounds) {
    const double k = 8.0 * static_cast<double>(tokens) * 147456;
    ASSERT_NEAR((16.4e9 + k) / (16.4e9 + k / 2), bound, 0.001) << "the bound itself";
    const auto full = decode_iteration(gpu, kQwen, step(kQwen, 8, tokens, 16)).duration;
    const auto fp8 = decode_iteration(gpu, kQwen, step(kQwen, 8, tokens, 8)).duration;
    EXPECT_LE(to_seconds(full) / to_seconds(fp8), bound) << tokens << " tokens";
  }
}

// Weights read once a step: 32 x (4096 x (6144 + 4096 + 28672) + 14336 x 4096) + 128256 x 4096 = 7.504e9
// elements, 15.01 GB; at 3.082 TB/s 4.87 ms. 193 launches of 1.2 to 12 us add less than 1.2 ms.
TEST(DecodeIteration, SmallBatchTakesTheTimeOfItsWeights) {
  Gpu gpu = h100();
  const double milliseconds = to_microseconds(decode_iteration(gpu, kLlama, step(kLlama, 1, 128, 16)).duration) / 1000;
  EXPECT_GT(milliseconds, 4.87);
  EXPECT_LT(milliseconds, 4.87 + 1.2);
}

TEST(DecodeIteration, OneStreamSumsItsKernels) {
  Gpu gpu = h100();
  const DecodeIteration iteration = decode_iteration(gpu, kLlama, step(kLlama, 4, 1000, 16));
  Picoseconds sum{0};
  std::int64_t num_kernels = 0;
  for (const KernelClassTime& sums : iteration.by_class) {
    sum += sums.duration;
    num_kernels += sums.num_kernels;
  }
  EXPECT_EQ(sum, iteration.duration);
  EXPECT_EQ(num_kernels, 32 * 6 + 1);
  for (const ScheduledKernel& kernel : iteration.schedule.kernels) EXPECT_EQ(kernel.slack.count(), 0);
}

TEST(DecodeIteration, EqualLayersMayBeListedOnceOrEach) {
  Gpu gpu = h100();
  const DecodeStepWork once = step(kLlama, 4, 1000, 16);
  DecodeStepWork each = once;
  each.attention.assign(32, once.attention[0]);
  EXPECT_EQ(decode_iteration(gpu, kLlama, once).duration, decode_iteration(gpu, kLlama, each).duration);
}

TEST(DecodeIteration, CompressionAddsItsKernels) {
  Gpu gpu = h100();
  DecodeStepWork work = step(kLlama, 4, 1000, 16);
  const Picoseconds without = decode_iteration(gpu, kLlama, work).duration;
  const CompressBlocksWork block{
      .num_blocks = 32, .read_bytes = 32 * 65536, .write_bytes = 32 * 16384, .chunk_bytes = 4096};
  work.compression = {block};
  const DecodeIteration with = decode_iteration(gpu, kLlama, work);
  EXPECT_EQ(with.compress_duration, 32 * gpu.compress_blocks(block).duration);
  EXPECT_EQ(with.duration - without, with.compress_duration);
}

TEST(DecodeIteration, ShapesThatDoNotFitAreRefused) {
  Gpu gpu = h100();
  DecodeStepWork work = step(kLlama, 1, 128, 16);
  work.attention.resize(2);
  EXPECT_THROW((void)decode_iteration(gpu, kLlama, work), InputError);
  work.attention.clear();
  EXPECT_THROW((void)decode_iteration(gpu, kLlama, work), InputError);
  work = step(kLlama, 1, 128, 16);
  work.batch = 0;
  EXPECT_THROW((void)decode_iteration(gpu, kLlama, work), InputError);
  DecoderShape shape = kLlama;
  shape.num_layers = 0;
  EXPECT_THROW((void)decode_iteration(gpu, shape, step(kLlama, 1, 128, 16)), InputError);
}

}  // namespace
}  // namespace kvtide::gpu

// What went wrong in practice, as checkable numbers: public reports on serving engines and calculators.
#include <gtest/gtest.h>

#include "gpu/constant_rate_memory.h"
#include "gpu/decode_attention.h"
#include "gpu/gpu.h"

namespace kvtide::gpu {
namespace {

/// `count` tasks of `entries` tokens, K and V of 128 channels.
DecodeAttentionWork layer(std::int64_t count, std::int64_t entries, std::int64_t bits, std::int64_t group) {
  const Bytes entry_bytes = 128 * static_cast<Bytes>(bits) / 8;
  const PageStream stream{static_cast<Bytes>(entries) * entry_bytes, 16 * entry_bytes};
  DecodeAttentionWork work;
  work.tasks.push_back({.streams = {stream, stream}, .num_entries = entries, .count = count});
  work.query_heads_per_task = group;
  return work;
}

// C8 (modal-labs/modal-client#2797, alvarobartt/hf-mem#33): a card sold as 80 GB reports 81,559 MiB. 80 GiB would be
// 378,535,936 B too many, 80 GB 5.5e9 B too few.
TEST(FieldCase, C8CardSoldAs80GbHoldsWhatItsDriverReports) {
  const Bytes reported = load_gpu_profile("h100-sxm").reported_bytes;
  EXPECT_EQ(reported, 85'520'809'984u);
  EXPECT_EQ((Bytes{80} << 30) - reported, 378'535'936u);
}

// P1 (vllm-project/vllm#42058): 16.4 GB of weights, 8 sequences, 36 layers of 8 KV heads (147,456 B a token in fp16). fp8
// cannot gain more than (W + K) / (W + K / 2) = 1.036, 1.128, 1.228, 1.371 at 1k, 4k, 8k, 16k; reported on an A100: 1.004,
// 1.050, 1.018, 1.055.
TEST(FieldCase, P1HalvedKvGainsLessThanItsShareOfTheBytes) {
  Gpu gpu(load_gpu_profile("a100"), Fidelity::roofline);
  const double weights = 16.4e9 / (gpu.profile().bandwidth * gpu.profile().read_efficiency);
  const double bounds[]{1.036, 1.128, 1.228, 1.371};
  const std::int64_t lengths[]{1024, 4096, 8192, 16384};
  for (int index = 0; index < 4; ++index) {
    const auto step = [&](std::int64_t bits) {
      DecodeAttentionWork work = layer(8 * 8, lengths[index], bits, 4);
      work.num_sequences = 8;
      if (bits == 8) work.tasks[0].dequantized_elements = 2.0 * static_cast<double>(lengths[index]) * 128;
      return weights + 36 * to_microseconds(gpu.decode_attention(work).duration) * 1e-6;
    };
    const double gain = step(16) / step(8);
    EXPECT_LT(gain, bounds[index] + 0.001) << lengths[index];
    EXPECT_GT(gain, 0.95) << lengths[index];
  }
}

// P2 (sgl-project/sglang#30815): 6 us more a layer, 32 layers, 3.35 TB/s, half the bytes of 131,072 B a token: slower below
// and faster above 2 x 32 x 6 us x 3.35e12 = 1.286 GB, 9,815 tokens over the batch. One change of sign.
TEST(FieldCase, P2QuantizationPaysFromTheTokensThatRepayItsCost) {
  GpuProfile profile;
  profile.name = "toy";
  profile.num_sms = 132;
  profile.memory_latency = 1e-9;  // streams of single blocks never bind
  profile.l2_latency = 1e-9;
  profile.l2_bytes = 1;
  profile.l2_bandwidth = 1e18;
  profile.tensor_flops_16bit = 1e21;
  profile.cuda_core_flops = 1e18;
  AttentionKernel kernel;
  kernel.bytes_in_flight = 1'000'000;
  kernel.tensor_efficiency = 1;
  kernel.transpose_rate = 1e18;
  kernel.tiles = {{128, 16}};
  ConstantRateMemory memory(3.35e12, 1);
  const auto layer_us = [&](std::int64_t tokens, std::int64_t bits, double extra) {
    kernel.fixed_time = 10e-6 + extra;
    profile.attention_kernels = {kernel};
    return to_microseconds(time_decode_attention(profile, memory, layer(8, tokens, bits, 4), L2State::cold).duration);
  };
  int changes = 0;
  bool was_faster = false;
  for (std::int64_t tokens = 1000; tokens <= 40000; tokens += 50) {
    const bool is_faster = layer_us(tokens, 8, 6e-6) < layer_us(tokens, 16, 0);
    if (is_faster && !was_faster) {
      EXPECT_NEAR(static_cast<double>(tokens), 9815, 60);
    }
    if (is_faster != was_faster) ++changes;
    was_faster = is_faster;
    EXPECT_LE(layer_us(tokens, 8, 0), layer_us(tokens, 16, 0)) << tokens;  // without a cost it is never slower
  }
  EXPECT_EQ(changes, 1);
}

// P3 (hahnyuan/LLM-Viewer#12): 32 query heads over 8 KV heads, 8,192 tokens, 32 layers of 4,096 B a token: 1 GiB, not 4.
TEST(FieldCase, P3GroupedQueriesReadTheirKvHeadOnce) {
  Gpu gpu(load_gpu_profile("h100-sxm"), Fidelity::roofline);
  DecodeAttentionWork work = layer(8, 8192, 16, 4);
  work.kernel = "vllm";
  EXPECT_EQ(32 * gpu.decode_attention(work).hbm_bytes, Bytes{1} << 30);
}

}  // namespace
}  // namespace kvtide::gpu

#include "gpu/compressed_attention.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "gpu/constant_rate_memory.h"

namespace kvtide::gpu {
namespace {

// DeepSeek-V3.2: 7168 x (1536 + 576) + 1536 x 128 x 192 + 128 x 128 x 7168 = 170,328,064 weights in the projections, and
// 1536 x 64 x 128 + 7168 x (128 + 64) = 13,959,168 in the indexer; 128 x 512 x 256 absorbed.
TEST(CompressedAttention, SparseLatentAttentionReadsAllIndexKeysAndTwoThousandRows) {
  const SparseModel model = sparse_model("DeepSeek-V3.2");
  const CompressedAttentionWork work = compressed_attention_work(model, 1, true, 4, 65536, 128, 2);
  EXPECT_EQ(work.projection_elements, 170'328'064.0 + 13'959'168.0);
  EXPECT_EQ(work.absorbed_elements, 16'777'216.0);
  EXPECT_EQ(work.index_entries, 65536);
  EXPECT_EQ(work.attended_entries, 2048);
  EXPECT_EQ(compressed_attention_work(model, 1, true, 4, 2048, 128, 2).attended_entries, 2048);
  EXPECT_EQ(compressed_attention_work(model, 1, true, 4, 2047, 128, 2).attended_entries, 2047);
  const CompressedAttentionWork reused = compressed_attention_work(model, 1, false, 4, 65536, 128, 2);
  EXPECT_EQ(reused.index_entries, 0);
  EXPECT_EQ(reused.projection_elements, 170'328'064.0);
}

// 10,000 tokens: 2,500 entries of 4, of which Flash picks 512 and Pro 1,024, and 128 exact tokens; 78 entries of 128.
TEST(CompressedAttention, CompressedEntriesAndTheExactWindowAreAttended) {
  const auto of = [](const char* model, std::int64_t ratio, bool indexer, std::int64_t context) {
    return compressed_attention_work(sparse_model(model), ratio, indexer, 1, context, 64, 1);
  };
  EXPECT_EQ(of("DeepSeek-V4-Flash-FP8", 4, true, 10000).attended_entries, 128 + 512);
  EXPECT_EQ(of("DeepSeek-V4-Pro", 4, true, 10000).attended_entries, 128 + 1024);
  EXPECT_EQ(of("DeepSeek-V4-Flash", 4, true, 10000).index_entries, 2500);
  EXPECT_EQ(of("DeepSeek-V4-Flash", 128, false, 10000).attended_entries, 128 + 78);
  EXPECT_EQ(of("DeepSeek-V4-Flash", 128, false, 100).attended_entries, 100);
  EXPECT_THROW((void)sparse_model("Llama"), InputError);
}

// Memory of 1e9 B/s, tensor cores of 1e12 FLOP/s: 1e6 weights of 2 B take 2 ms; 2 x 4 x 1e6 FLOP at half efficiency 16 us;
// 4 x 1000 index entries of 132 B 0.528 ms, at half efficiency 1.056; attention 4 x 4 x 100 x 64 rows x 544 = 55.7 MFLOP,
// 55.7 us; 10 us + 4 x 1 us + 1000 x 1 ns.
TEST(CompressedAttention, PartsFollowOneAnother) {
  GpuProfile profile;
  profile.num_sms = 8;
  profile.bytes_in_flight = 1000;
  profile.tensor_flops_16bit = 1e12;
  ConstantRateMemory memory(1e9, 1);
  AttentionModule module;
  module.fixed_time = 10e-6;
  module.sequence_time = 1e-6;
  module.select_time = 1e-9;
  module.projection_efficiency = 0.5;
  module.index_efficiency = 0.5;
  CompressedAttentionWork work{.batch = 4, .num_heads = 16};
  work.projection_elements = 1e6;
  work.index_entries = 1000;
  work.attended_entries = 100;
  const KernelTime time = time_compressed_attention(profile, memory, module, work);
  EXPECT_NEAR(to_microseconds(time.duration), 2000 + 16 + 1056 + 55.7056 + 10 + 4 + 1, 0.01);
  EXPECT_EQ(time.hbm_bytes, 2'000'000u + 528'000u);
  EXPECT_EQ(time.limited_by, "memory");
  work.projection_elements = -1;
  EXPECT_THROW((void)time_compressed_attention(profile, memory, module, work), InputError);
}

TEST(CompressedAttention, ShippedModulesLoadForBothMemories) {
  for (const char* name : {"dsa", "dsa-skip", "dsv4_csa", "dsv4_hca"}) {
    for (const char* memory : {"hbm3", "gddr6"}) {
      EXPECT_GT(load_attention_module("sglang", name, memory).fixed_time, 0) << name << ", " << memory;
    }
  }
  EXPECT_THROW((void)load_attention_module("toi", "dsa", "hbm3"), InputError);
}

}  // namespace
}  // namespace kvtide::gpu

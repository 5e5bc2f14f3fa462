// The machine over each tier of its memory.
#include "gpu/gpu.h"

#include <gtest/gtest.h>

namespace kvtide::gpu {
namespace {

/// Pages of `page_size` tokens, head_dim 128, fp16: batch 8 x 8 KV heads x 8192 tokens = 256 MiB.
DecodeAttentionWork paged(std::int64_t page_size) {
  const PageStream stream{8192 * 256, static_cast<Bytes>(page_size) * 256};
  DecodeAttentionWork work;
  work.tasks.push_back({.streams = {stream, stream}, .num_entries = 8192, .count = 64});
  work.query_heads_per_task = 4;
  return work;
}

// Field case (pegainfer-project/pegainfer#554, sgl-project/sglang#4356): same bytes, decode time within 1.5 %.
TEST(GpuMemoryTiers, PagesOf16And64TokensDecodeAlike) {
  for (const Fidelity fidelity : {Fidelity::roofline, Fidelity::sampled}) {
    Gpu gpu(load_gpu_profile("h100-sxm"), fidelity);
    const double small = to_seconds(gpu.decode_attention(paged(16)).duration);
    const double large = to_seconds(gpu.decode_attention(paged(64)).duration);
    EXPECT_NEAR(small / large, 1, 0.015) << static_cast<int>(fidelity);
  }
}

// 268 MB / 3.35 TB/s = 80 us at the pins; no tier may be faster, and a good one is within a third.
TEST(GpuMemoryTiers, TiersAgreeOnABigStream) {
  Gpu roofline(load_gpu_profile("h100-sxm"), Fidelity::roofline);
  Gpu sampled(load_gpu_profile("h100-sxm"), Fidelity::sampled);
  const double by_roofline = to_microseconds(roofline.decode_attention(paged(16)).duration);
  const double by_sampling = to_microseconds(sampled.decode_attention(paged(16)).duration);
  EXPECT_GT(by_roofline, 80);
  EXPECT_LT(by_roofline, 120);
  EXPECT_NEAR(by_sampling / by_roofline, 1, 0.08);
}

}  // namespace
}  // namespace kvtide::gpu

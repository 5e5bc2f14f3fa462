#include "gpu/top_k.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "gpu/constant_rate_memory.h"
#include "gpu/stream_kernel.h"

namespace kvtide::gpu {
namespace {

// 8 lists of 32,768 fp32 scores, four passes: 4,194,304 B; 8 x 16,384 indices of 4 B.
TEST(TopK, FourPassesReadEveryScore) {
  const StreamWork work = top_k_work({.num_lists = 8, .list_size = 32'768, .num_kept = 16'384});
  EXPECT_EQ(work.read_bytes, 4'194'304u);
  EXPECT_EQ(work.write_bytes, 524'288u);
  EXPECT_EQ(work.num_blocks, 8);
  EXPECT_EQ(work.num_launches, 4);
}

// One block a list: one long list takes as long as 132 of them on 132 SMs, when L2 holds all.
TEST(TopK, OneListOccupiesOneSm) {
  GpuProfile profile = load_gpu_profile("h100-sxm");
  profile.l2_bandwidth = 1e18;
  ConstantRateMemory memory(1e18, 1);
  const auto time = [&](std::int64_t lists) {
    return time_stream(profile, memory, top_k_work({.num_lists = lists, .list_size = 4096, .num_kept = 64})).duration;
  };
  EXPECT_EQ(time(1), time(132));
  EXPECT_GT(time(133), time(132));
}

TEST(TopK, ImpossibleShapesAreRefused) {
  EXPECT_THROW((void)top_k_work({.num_lists = 1, .list_size = 4, .num_kept = 5}), InputError);
  EXPECT_THROW((void)top_k_work({.num_lists = 0}), InputError);
  EXPECT_THROW((void)top_k_work({.num_lists = 1, .list_size = -1}), InputError);
  EXPECT_EQ(top_k_work({.num_lists = 1, .list_size = 0}).num_blocks, 0);
}

}  // namespace
}  // namespace kvtide::gpu

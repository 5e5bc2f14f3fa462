#include "gpu/validation/leave_out.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace kvtide::gpu {
namespace {

bool has_framework(const GpuProfile& profile, const std::string& framework) {
  return std::ranges::any_of(profile.attention_kernels,
                             [&](const AttentionKernel& kernel) { return kernel.framework == framework; });
}

// Nothing that was calibrated on the card itself is left; the datasheet is.
TEST(LeaveOut, KernelsAndMemoryShareComeFromTheNearestArchitecture) {
  const GpuProfile known = load_gpu_profile("rtx_pro_6000_server");
  const GpuProfile left_out = leave_out("rtx_pro_6000_server", {});
  EXPECT_EQ(left_out.bandwidth, known.bandwidth);
  EXPECT_EQ(left_out.l2_bytes, known.l2_bytes);
  EXPECT_EQ(left_out.read_efficiency, load_gpu_profile("a100").read_efficiency);
  for (const AttentionKernel& kernel : left_out.attention_kernels) {
    EXPECT_TRUE(std::ranges::none_of(known.attention_kernels, [&](const AttentionKernel& own) {
      return own.name == kernel.name;
    })) << kernel.name;
    EXPECT_EQ(kernel.clock, known.clock);
  }
  EXPECT_TRUE(has_framework(left_out, "vllm"));    // from A100
  EXPECT_TRUE(has_framework(left_out, "trtllm"));  // from H100
}

TEST(LeaveOut, FrameworkThatNoNeighbourRunsGetsItsDefaultKernels) {
  EXPECT_TRUE(has_framework(leave_out("a100_sxm", {}), "sglang"));
}

// Ampere has no 8-bit kernel, GDDR7 Blackwell was measured with fp8: Ampere's recipe is taken for it, under any operands.
TEST(LeaveOut, FrameworkWithoutAnEightBitKernelServesFp8WithItsRecipe) {
  const GpuProfile left_out = leave_out("rtx_pro_6000_server", {});
  DecodeAttentionWork work;
  work.tasks.resize(1);
  work.tasks.front().num_entries = 4096;
  work.query_heads_per_task = 4;
  for (const std::int64_t bits : {8, 16}) {
    work.math_bits = bits;
    EXPECT_EQ(left_out.attention_kernel("vllm", work).name, "vllm-fa2-ampere") << bits;
  }
}

TEST(LeaveOut, HostsSubmissionTimeIsForgotten) {
  EXPECT_GT(load_gpu_profile("b60").host_launch_time, 0);
  EXPECT_EQ(leave_out("b60", {}).host_launch_time, 0);
}

TEST(LeaveOut, WhatWasNeverMeasuredHasNothingToLeaveOut) {
  EXPECT_TRUE(has_rows_to_leave_out("b60"));
  EXPECT_FALSE(has_rows_to_leave_out("l40s"));
}

TEST(LeaveOut, GpuWithoutKnownNeighboursIsRefused) {
  EXPECT_EQ(nearest_gpus("h100-sxm"), std::vector<std::string>{"h200-sxm"});
  EXPECT_THROW((void)leave_out("l40s", {}), InputError);
  EXPECT_THROW((void)leave_out("toi", {}), InputError);
}

}  // namespace
}  // namespace kvtide::gpu

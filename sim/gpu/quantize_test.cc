#include "gpu/quantize.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "gpu/constant_rate_memory.h"

namespace kvtide::gpu {
namespace {

/// 10 SMs with two blocks each, latencies of 100 ns (L2) and 1 us, a row a block.
class RoundQuantize : public testing::Test {
 protected:
  RoundQuantize() {
    profile_.num_sms = 10;
    profile_.l2_latency = 100e-9;
    profile_.memory_latency = 1e-6;
    profile_.graph_launch_latency = 1e-6;
    profile_.l2_bandwidth = 1e15;
    profile_.l2_bytes = 3'000'000;
    profile_.read_efficiency = 1;
    QuantizeKernel cast;
    cast.name = cast.framework = "round";
    cast.blocks_per_sm = 2;
    cast.fixed_time = 2e-6;
    cast.task_time = 0.5e-6;
    cast.bytes_in_flight = 3000;
    QuantizeKernel find = cast;
    find.step = QuantizeStep::find_scale;
    profile_.kernels.quantize = {cast, find};
  }
  double microseconds(const QuantizeWork& work, L2State l2 = L2State::warm) {
    return to_microseconds(time_quantize(profile_, memory_, work, l2).duration);
  }
  GpuProfile profile_ = load_gpu_profile("h100-sxm");
  ConstantRateMemory memory_{1e12, 1};
};

// A row of 10,000: 30,000 B / 3000 B x 100 ns + 0.5 us = 1.5 us; 20 rows run at once, 21 are two waves.
TEST_F(RoundQuantize, RowsRunInWaves) {
  EXPECT_NEAR(microseconds({.num_rows = 1, .row_size = 10'000}), 3 + 1.5, 0.001);
  EXPECT_NEAR(microseconds({.num_rows = 20, .row_size = 10'000}), 3 + 1.5, 0.001);
  EXPECT_NEAR(microseconds({.num_rows = 21, .row_size = 10'000}), 3 + 3, 0.001);
}

// The search reads 2 B an element and writes none: 20,000 B / 3000 x 100 ns + 0.5.
TEST_F(RoundQuantize, FindingTheScaleOnlyReads) {
  EXPECT_NEAR(microseconds({.num_rows = 1, .row_size = 10'000, .step = QuantizeStep::find_scale}), 3 + 1.167, 0.001);
}

// 1,000,000 elements are 3 MB: just in L2. Cold, they come from memory: 3 us at 1 TB/s, and every block waits ten times
// as long: 5 waves of 10.5 us.
TEST_F(RoundQuantize, WhatTheKernelBeforeWroteIsInL2) {
  const QuantizeWork work{.num_rows = 100, .row_size = 10'000};
  EXPECT_EQ(time_quantize(profile_, memory_, work).hbm_bytes, 0u);
  EXPECT_NEAR(microseconds(work), 3 + 5 * 1.5, 0.01);
  EXPECT_EQ(time_quantize(profile_, memory_, work, L2State::cold).hbm_bytes, 3'000'000u);
  EXPECT_NEAR(microseconds(work, L2State::cold), 3 + 5 * 10.5, 0.01);
}

TEST_F(RoundQuantize, NothingLaunchesNothingAndTheImpossibleIsRefused) {
  EXPECT_EQ(microseconds({.num_rows = 0, .row_size = 64}), 0);
  EXPECT_THROW((void)microseconds({.num_rows = -1, .row_size = 64}), InputError);
  EXPECT_THROW((void)microseconds({.num_rows = INT64_MAX, .row_size = 64}), InputError);
}

TEST(Quantize, EveryProfileTimesEveryStep) {
  for (const std::string& name : known_gpus()) {
    const GpuProfile profile = load_gpu_profile(name);
    ConstantRateMemory memory(profile.bandwidth, profile.read_efficiency);
    for (const char* framework : {"", "vllm", "trtllm", "sglang"}) {
      for (const QuantizeStep step : {QuantizeStep::cast, QuantizeStep::find_scale}) {
        const QuantizeWork work{.num_rows = 8192, .row_size = 8192, .step = step, .kernel = framework};
        const double time = to_microseconds(time_quantize(profile, memory, work, L2State::cold).duration);
        EXPECT_GT(time, 2 * 8192.0 * 8192 / profile.bandwidth * 1e6) << name << framework;
        EXPECT_LT(time, 2e4) << name << framework;
      }
    }
  }
}

}  // namespace
}  // namespace kvtide::gpu

#include "gpu/validation/kernel_calibration.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gpu/constant_rate_memory.h"
#include "gpu/decode_attention.h"

namespace kvtide::gpu {
namespace {

GpuProfile toy_profile(const AttentionKernel& kernel) {
  GpuProfile profile;
  profile.name = "toy";
  profile.num_sms = 100;
  profile.clock = 1e9;
  profile.memory_latency = 400e-9;
  profile.l2_latency = 200e-9;
  profile.l2_bytes = Bytes{50} << 20;
  profile.l2_bandwidth = 5e12;
  profile.bandwidth = 3e12;
  profile.read_efficiency = 0.9;
  profile.tensor_flops_16bit = 1e15;
  profile.cuda_core_flops = 6e13;
  profile.graph_launch_latency = 1e-6;
  profile.attention_kernels = {kernel};
  return profile;
}

AttentionKernel toy_kernel() {
  AttentionKernel kernel;
  kernel.name = kernel.framework = "toy";
  kernel.clock = 1e9;
  kernel.fixed_time = 6e-6;
  kernel.task_time = 2e-6;
  kernel.combine_time = 3e-6;
  kernel.bytes_in_flight = 32768;
  kernel.tensor_efficiency = 0.4;
  kernel.transpose_rate = 1e18;
  kernel.tiles = {{128, 64}};
  return kernel;
}

/// Times that the kernel itself predicts, over few and many tasks, short and long.
std::vector<CalibrationRow> rows_of(const GpuProfile& profile) {
  std::vector<CalibrationRow> rows;
  ConstantRateMemory memory(profile.bandwidth, profile.read_efficiency);
  for (const std::int64_t count : {1, 10, 60, 100, 300, 2000}) {
    for (const std::int64_t entries : {16, 64, 512, 4096, 32768}) {
      const Bytes bytes = static_cast<Bytes>(entries) * 256;
      DecodeAttentionWork work;
      work.tasks.push_back({.streams = {{bytes, 4096}, {bytes, 4096}}, .num_entries = entries, .count = count});
      const KernelTime time = time_decode_attention(profile, memory, work, L2State::warm);
      rows.push_back({0, work, to_microseconds(time.duration)});
    }
  }
  return rows;
}

// Rows of a kernel with 6 us fixed, 2 us a task, 3 us to combine and 0.4 of the tensor cores; started from constants that
// are wrong by a quarter to a half, the fit must come back to them.
TEST(KernelCalibration, FindsTheConstantsThatMadeTheTimes) {
  const AttentionKernel truth = toy_kernel();
  const GpuProfile profile = toy_profile(truth);
  AttentionKernel start = truth;
  start.fixed_time *= 1.5;
  start.task_time *= 0.6;
  start.combine_time *= 1.3;
  start.tensor_efficiency *= 0.75;
  const AttentionKernel found = calibrate_kernel(start, {profile}, rows_of(profile));
  EXPECT_NEAR(found.fixed_time / truth.fixed_time, 1, 0.02);
  EXPECT_NEAR(found.task_time / truth.task_time, 1, 0.02);
  EXPECT_NEAR(found.combine_time / truth.combine_time, 1, 0.02);
  EXPECT_NEAR(found.tensor_efficiency / truth.tensor_efficiency, 1, 0.02);
  EXPECT_EQ(found.bytes_in_flight, truth.bytes_in_flight);
  EXPECT_EQ(found.transpose_rate, truth.transpose_rate);  // nothing is transposed
}

// One row in thirty that is ten times too slow must not move the rest: beyond 5 % an error counts linearly.
TEST(KernelCalibration, OutliersDoNotDragTheFit) {
  const GpuProfile profile = toy_profile(toy_kernel());
  std::vector<CalibrationRow> rows = rows_of(profile);
  rows[7].microseconds *= 10;
  const AttentionKernel found = calibrate_kernel(toy_kernel(), {profile}, rows);
  EXPECT_NEAR(found.fixed_time / 6e-6, 1, 0.02);
  EXPECT_NEAR(found.task_time / 2e-6, 1, 0.02);
}

}  // namespace
}  // namespace kvtide::gpu

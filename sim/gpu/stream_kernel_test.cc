#include "gpu/stream_kernel.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "gpu/constant_rate_memory.h"

namespace kvtide::gpu {
namespace {

class StreamOnH100 : public testing::Test {
 protected:
  KernelTime time(const StreamWork& work) { return time_stream(profile_, memory_, work); }
  GpuProfile profile_ = load_gpu_profile("h100-sxm");
  ConstantRateMemory memory_{3.35e12, 0.92};
};

// The header's example: 65,536 B / (32,768 B / 370 ns) = 740 ns, + 370 ns latency + 1.2 us launch = 2.31 us;
// HBM alone would need 4,194,304 B / 3.082 TB/s = 1.36 us: the longer of both counts.
TEST_F(StreamOnH100, FewBlocksAreBoundByTheirOwnStreams) {
  const KernelTime one = time({.num_blocks = 1, .read_bytes = 65536, .write_bytes = 0, .chunk_bytes = 4096});
  EXPECT_NEAR(to_microseconds(one.duration), 2.31, 0.01);
  const KernelTime many = time({.num_blocks = 64, .read_bytes = 64 * 65536, .write_bytes = 0, .chunk_bytes = 4096});
  EXPECT_NEAR(to_microseconds(many.duration), 1.2 + 0.37 + 1.361, 0.01);
  EXPECT_EQ(many.hbm_bytes, 4'194'304u);
}

TEST_F(StreamOnH100, NoBlocksLaunchNothing) {
  EXPECT_EQ(time({.num_blocks = 0, .read_bytes = 0, .write_bytes = 0, .chunk_bytes = 4096}).duration.count(), 0);
}

// 1e12 flop over 132 blocks at half of 67 TFLOP/s: 29.85 ms.
TEST_F(StreamOnH100, HeavyArithmeticIsBoundByCudaCores) {
  const KernelTime result =
      time({.num_blocks = 132, .read_bytes = 1 << 20, .write_bytes = 0, .chunk_bytes = 4096, .flops = 1e12});
  EXPECT_NEAR(to_microseconds(result.duration), 29851 + 1.57, 2);
  EXPECT_EQ(result.limited_by, "compute");
}

TEST_F(StreamOnH100, ImpossibleWorkIsRefused) {
  EXPECT_THROW((void)time({.num_blocks = -1}), InputError);
  EXPECT_THROW((void)time({.num_blocks = 1, .read_bytes = UINT64_MAX}), InputError);
  EXPECT_THROW((void)time({.num_blocks = 1, .flops = NAN}), InputError);
  EXPECT_THROW((void)time({.num_blocks = 1, .flops = 1e30}), InputError);
  EXPECT_THROW((void)time({.num_blocks = 1, .num_launches = 0}), InputError);
}

}  // namespace
}  // namespace kvtide::gpu

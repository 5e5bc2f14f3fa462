#include "gpu/gemm.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "gpu/constant_rate_memory.h"

namespace kvtide::gpu {
namespace {

class GemmOnH100 : public testing::Test {
 protected:
  KernelTime time(const GemmWork& work) { return time_gemm(profile_, memory_, work); }
  GpuProfile profile_ = load_gpu_profile("h100-sxm");
  ConstantRateMemory memory_{3.35e12, 0.92};
};

// n x k x 2 B = 33,554,432 and 2 x 8 x 4096 x 2 B = 131,072 of activations: 33,685,504 B / 3.082 TB/s = 10.93 us,
// + 1.2 launch + 1.46 fixed = 13.59 us.
TEST_F(GemmOnH100, FewRowsAreBoundByTheWeights) {
  const KernelTime result = time({.m = 8, .n = 4096, .k = 4096});
  EXPECT_NEAR(to_microseconds(result.duration), 13.59, 0.01);
  EXPECT_EQ(result.hbm_bytes, 33'685'504u);
  EXPECT_EQ(result.limited_by, "memory");
}

// 8192^3 x 2 = 1.0995e12 flop; 128 x 256 tiles: 64 x 32 = 2048, over 132 SMs 15.52 -> 16 waves (97 %):
// 1.0995e12 / (989.4e12 x 0.76) = 1462 us at the best, 16 / 15.515 more is 1508; a finer tile may fill better.
TEST_F(GemmOnH100, ManyRowsAreBoundByTheTensorCores) {
  const KernelTime result = time({.m = 8192, .n = 8192, .k = 8192});
  EXPECT_GE(to_microseconds(result.duration), 1462);
  EXPECT_LE(to_microseconds(result.duration), 1511);
  EXPECT_EQ(result.limited_by, "compute");
}

TEST_F(GemmOnH100, HalfTheWeightBytesAreNeverSlowerAndGainAtMostTwo) {
  for (const std::int64_t m : {1, 16, 256, 4096}) {
    const double full = to_microseconds(time({.m = m, .n = 4096, .k = 4096, .weight_bytes_per_element = 2}).duration);
    const double half = to_microseconds(time({.m = m, .n = 4096, .k = 4096, .weight_bytes_per_element = 1}).duration);
    EXPECT_LE(half, full) << m;
    EXPECT_GE(half, full / 2) << m;
  }
}

TEST_F(GemmOnH100, TinyGemmCostsTheLaunch) {
  EXPECT_EQ(time({.m = 1, .n = 32, .k = 32}).limited_by, "launch");
}

TEST_F(GemmOnH100, ImpossibleShapesAreRefused) {
  EXPECT_THROW((void)time({.m = 0, .n = 1, .k = 1}), InputError);
  EXPECT_THROW((void)time({.m = 1, .n = -1, .k = 1}), InputError);
  EXPECT_THROW((void)time({.m = 1, .n = 1, .k = INT64_MAX}), InputError);
  EXPECT_THROW((void)time({.m = 1, .n = 1, .k = 1, .weight_bytes_per_element = 3}), InputError);
  EXPECT_THROW((void)time({.m = std::int64_t{1} << 40, .n = std::int64_t{1} << 40, .k = std::int64_t{1} << 40}),
               InputError);
  profile_.tensor_flops_8bit = 0;
  EXPECT_THROW((void)time({.m = 1, .n = 1, .k = 1, .weight_bytes_per_element = 1}), InputError);
}

}  // namespace
}  // namespace kvtide::gpu

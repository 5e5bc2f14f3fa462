#include "gpu/gemm.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "gpu/constant_rate_memory.h"

namespace kvtide::gpu {
namespace {

/// 100 SMs of 10 TFLOP/s (16 bit) and 20 (8 bit), memory of 1 TB/s, and kernels with round constants.
class RoundGemm : public testing::Test {
 protected:
  RoundGemm() {
    profile_.num_sms = 100;
    profile_.tensor_flops_16bit = 1e15;
    profile_.tensor_flops_8bit = 2e15;
    profile_.tensor_derating = 1;
    profile_.graph_launch_latency = 1e-6;
    profile_.l2_bandwidth = 1e16;
    profile_.l2_bytes = Bytes{1} << 40;
    profile_.l2_usable_share = 1;
    GemmKernel plain;
    plain.name = "round-bf16";
    plain.framework = "round";
    plain.fixed_time = 2e-6;
    plain.tensor_efficiency = 1;
    plain.bytes_in_flight = Bytes{1} << 40;  // loads never bind
    GemmKernel narrow = plain;
    narrow.name = "round-fp8";
    narrow.format = OperandFormat::fp8;
    profile_.kernels.gemm = {plain, narrow};
  }
  KernelTime time(const GemmWork& work, L2State weights = L2State::cold) {
    return time_gemm(profile_, memory_, work, weights);
  }
  double microseconds(const GemmWork& work) { return to_microseconds(time(work).duration); }
  GpuProfile profile_ = load_gpu_profile("h100-sxm");
  ConstantRateMemory memory_{1e12, 1};
};

// 4096 x 4096 x 2 B = 33,554,432 B of weights at 1 TB/s = 33.55 us, + 1 launch + 2 fixed. The tensor cores need
// 2 x 64 x 32 x 4096 / 10e12 = 1.7 us a tile, two waves of 128 tiles: out of the way (its share in the fourth-power sum
// is 1e-4).
TEST_F(RoundGemm, FewRowsAreBoundByTheWeights) {
  const KernelTime result = time({.m = 8, .n = 4096, .k = 4096});
  EXPECT_NEAR(to_microseconds(result.duration), 36.55, 0.02);
  EXPECT_EQ(result.hbm_bytes, 33'554'432u);
  EXPECT_EQ(result.limited_by, "memory");
  // Weights that a benchmark reuses fit into L2: nothing is read.
  EXPECT_EQ(time({.m = 8, .n = 4096, .k = 4096}, L2State::warm).hbm_bytes, 0u);
}

// 25,600 x 25,600 outputs in tiles of 256 x 128: 20,000 = 200 waves of 100, each 2 x 256 x 128 x 1024 / 10e12 = 6.711 us:
// 1342 us. Every other tile shape fills the waves as well or worse.
TEST_F(RoundGemm, ManyRowsAreBoundByTheTensorCores) {
  const KernelTime result = time({.m = 25'600, .n = 25'600, .k = 1024});
  EXPECT_NEAR(to_microseconds(result.duration), 1345.2, 0.5);
  EXPECT_EQ(result.limited_by, "compute");
}

// 25,600 x 128 outputs are 100 tiles of 256 x 128, one wave: 10 us a tile and 2 x 256 x 128 x 64 / 10e12 = 0.42. One row
// more is a second wave.
TEST_F(RoundGemm, WavesMakeStairs) {
  profile_.kernels.gemm[0].task_time = 10e-6;
  EXPECT_NEAR(microseconds({.m = 25'600, .n = 128, .k = 64}), 3 + 10.42, 0.01);
  EXPECT_NEAR(microseconds({.m = 25'500, .n = 128, .k = 64}), 3 + 10.42, 0.01);
  EXPECT_NEAR(microseconds({.m = 25'601, .n = 128, .k = 64}), 3 + 20.84, 0.01);
}

// 32 x 6,400 outputs are 100 tiles of 32 x 64, one wave of 2 x 32 x 64 x 4096 / 10e12 = 1.678 us; a 33rd row fills the tiles of 64 x 64,
// 3.355. As many columns of as many rows are no other work.
TEST_F(RoundGemm, FewRowsHaveTilesAsNarrowAsFewColumns) {
  const auto warm = [this](std::int64_t m, std::int64_t n) {
    return to_microseconds(time({.m = m, .n = n, .k = 4096}, L2State::warm).duration);
  };
  EXPECT_NEAR(warm(32, 6400), 3 + 1.678, 0.01);
  EXPECT_NEAR(warm(33, 6400), 3 + 3.355, 0.01);
  EXPECT_NEAR(warm(6400, 32), 3 + 1.678, 0.01);
  EXPECT_NEAR(warm(6400, 33), 3 + 3.355, 0.01);
}

// One tile, k = 8192: 2 x 64 x 32 x 8192 / 10e12 = 3.355 us alone; 8 parts take 0.419 us and 1 us to combine.
TEST_F(RoundGemm, LongSumsAreSplit) {
  const GemmWork work{.m = 16, .n = 32, .k = 8192};
  EXPECT_NEAR(microseconds(work), 3 + 3.355, 0.02);
  profile_.kernels.gemm[0].max_splits = 8;
  profile_.kernels.gemm[0].combine_time = 1e-6;
  // Beside 524,288 B of weights in 0.524 us: (0.419^4 + 0.524^4)^(1/4) = 0.572.
  EXPECT_NEAR(microseconds(work), 3 + 0.572 + 1, 0.01);
}

// 8 experts read 8 matrices: 8 x 4096 x 4096 B = 134.2 us of fp8, one expert 16.78.
TEST_F(RoundGemm, GroupsHaveWeightsOfTheirOwn) {
  GemmWork work{.m = 1, .n = 4096, .k = 4096, .format = OperandFormat::fp8};
  EXPECT_NEAR(microseconds(work), 3 + 16.78, 0.1);
  work.num_groups = 8;
  EXPECT_NEAR(microseconds(work), 3 + 134.2, 0.5);
  EXPECT_EQ(time(work).hbm_bytes, 134'217'728u);
}

// 1000 rows of 1 SM-us each on 100 SMs: 10 us before the product.
TEST_F(RoundGemm, QuantizingActivationsCostsRowsAndBytes) {
  const GemmWork work{.m = 1000, .n = 64, .k = 64, .format = OperandFormat::fp8};
  const double plain = microseconds(work);
  profile_.kernels.gemm[1].pass_bytes = 3;
  EXPECT_NEAR(microseconds(work), plain, 0.01);  // 192 kB from L2
  profile_.kernels.gemm[1].row_time = 1e-6;
  EXPECT_NEAR(microseconds(work), plain + 10, 0.01);
}

TEST_F(RoundGemm, ASlowHostIsWaitedForOutsideGraphsOnly) {
  profile_.kernels.gemm[0].host_time = 50e-6;
  GemmWork work{.m = 1, .n = 64, .k = 64};
  EXPECT_LT(microseconds(work), 5);
  work.from_host = true;
  EXPECT_NEAR(microseconds(work), 50, 0.001);
}

TEST_F(RoundGemm, ImpossibleShapesAreRefused) {
  EXPECT_THROW((void)time({.m = 0, .n = 1, .k = 1}), InputError);
  EXPECT_THROW((void)time({.m = 1, .n = -1, .k = 1}), InputError);
  EXPECT_THROW((void)time({.m = 1, .n = 1, .k = INT64_MAX}), InputError);
  EXPECT_THROW((void)time({.m = 1, .n = 1, .k = 1, .num_groups = 0}), InputError);
  EXPECT_THROW((void)time({.m = std::int64_t{1} << 40, .n = std::int64_t{1} << 40, .k = std::int64_t{1} << 40}),
               InputError);
}

// fp8 on an A100 is multiplied in 16 bit: never refused, never faster than the tensor cores it has.
TEST(Gemm, EveryProfileTimesEveryFormat) {
  for (const std::string& name : known_gpus()) {
    const GpuProfile profile = load_gpu_profile(name);
    ConstantRateMemory memory(profile.bandwidth, profile.read_efficiency);
    for (const std::string& format : operand_format_names()) {
      for (const char* framework : {"", "vllm", "trtllm"}) {
        GemmWork work{.m = 4096, .n = 8192, .k = 8192, .kernel = framework};
        ASSERT_TRUE(from_string(format, work.format));
        const double time = to_microseconds(time_gemm(profile, memory, work).duration);
        EXPECT_GT(time, 2 * 4096.0 * 8192 * 8192 / tensor_rate(profile, work.format) * 1e6) << name << format;
        EXPECT_LT(time, 1e5) << name << format;
      }
    }
  }
}

TEST(OperandFormat, StoredBytesHoldTheirScales) {
  EXPECT_DOUBLE_EQ(activation_bytes(OperandFormat::fp8_block), 1.03125);  // 4 B for 128 elements
  EXPECT_DOUBLE_EQ(weight_bytes(OperandFormat::nvfp4), 0.5625);           // 4 bit + 8 bit for 16 elements
  EXPECT_DOUBLE_EQ(weight_bytes(OperandFormat::int4_wo), 0.5);
  EXPECT_DOUBLE_EQ(activation_bytes(OperandFormat::int4_wo), 2);
  OperandFormat format = OperandFormat::sq;
  EXPECT_FALSE(from_string("fp3", format));
  EXPECT_EQ(format, OperandFormat::sq);
  for (const std::string& name : operand_format_names()) {
    ASSERT_TRUE(from_string(name, format));
    EXPECT_EQ(to_string(format), name);
  }
}

// fp8 from compute capability 8.9 on, fp4 from 10.0 on (NVIDIA's data sheets, as the profiles cite them).
TEST(OperandFormat, WithoutTensorCoresForItWeightsAloneAreNarrow) {
  const auto executed = [](const char* gpu, OperandFormat format) {
    return executed_format(load_gpu_profile(gpu), format);
  };
  EXPECT_EQ(executed("a100-sxm-80gb", OperandFormat::fp8), OperandFormat::int8_wo);
  EXPECT_EQ(executed("a100-sxm-80gb", OperandFormat::sq), OperandFormat::sq);
  EXPECT_EQ(executed("l40s", OperandFormat::fp8_block), OperandFormat::fp8_block);
  EXPECT_EQ(executed("h100-sxm", OperandFormat::nvfp4), OperandFormat::nvfp4_wo);
  EXPECT_EQ(executed("b300-sxm", OperandFormat::nvfp4), OperandFormat::nvfp4);
  EXPECT_EQ(executed("v100-sxm2-32gb", OperandFormat::bfloat16), OperandFormat::bfloat16);
}

// 0.5 + 1 / 16 or 0.5 + 1 / 32 B a weight in place of 0.5; activations and results are 0.4 MB of gigabytes.
TEST(Gemm, Fp4WeightsAloneTakeTheKernelsOfInt4) {
  const GpuProfile profile = load_gpu_profile("h100-sxm");
  ConstantRateMemory memory(profile.bandwidth, profile.read_efficiency);
  GemmWork work{.m = 1, .n = 65536, .k = 65536};
  for (const auto& [format, bytes] : {std::pair{OperandFormat::nvfp4_wo, 0.5625}, {OperandFormat::mxfp4_wo, 0.53125}}) {
    work.format = format;
    EXPECT_EQ(profile.kernels.gemm_kernel(work).format, OperandFormat::int4_wo);
    EXPECT_NEAR(static_cast<double>(time_gemm(profile, memory, work).hbm_bytes), bytes * 65536 * 65536, 1e6);
  }
}

// 65,536^2 int4 weights at 25.7 a clock on 108 SMs of 1.41 GHz take 1.10 ms, their 2.15 GB 1.2 ms at 90 % of 2.04 TB/s: the longer of the
// two at least, and less than one behind the other. 16 rows are converted once, as one is.
TEST(Gemm, NarrowWeightsAreConvertedOnceATile) {
  const GpuProfile profile = load_gpu_profile("a100-sxm-80gb");
  ConstantRateMemory memory(profile.bandwidth, profile.read_efficiency);
  const auto milliseconds = [&](std::int64_t m) {
    const GemmWork work{.m = m, .n = 65536, .k = 65536, .format = OperandFormat::int4_wo};
    return to_microseconds(time_gemm(profile, memory, work).duration) / 1e3;
  };
  EXPECT_GT(milliseconds(1), 1.10);
  EXPECT_LT(milliseconds(1), 1.10 + 1.2);
  EXPECT_NEAR(milliseconds(16), milliseconds(1), 0.02);
}

// A profile that says what its products reach is slowed where that is less than on the calibrated GPU: GB200 1822 / 2500
// = 0.729 against B300's 0.786 -> 0.927; B300 itself is not.
TEST(GpuProfile, SustainedProductsDerateTheTensorCores) {
  EXPECT_NEAR(load_gpu_profile("gb200").tensor_derating, 0.927, 0.001);
  EXPECT_NEAR(load_gpu_profile("b300-sxm").tensor_derating, 1, 0.001);
  EXPECT_EQ(load_gpu_profile("l40s").tensor_derating, 1);
}

}  // namespace
}  // namespace kvtide::gpu

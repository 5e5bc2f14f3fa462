#include "experiment/extrapolation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvtide::experiment {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Setting plain() {
  Setting setting;
  setting.compression.block_size = 64;
  return setting;
}

TEST(Extrapolation, AGpuCountsAsMeasuredWhereItsOwnRowsChoseItsConstants) {
  for (const char* name : {"a100-sxm-80gb", "h100-sxm", "h200-sxm", "b300-sxm", "b60", "rtx-pro-6000"}) {
    EXPECT_TRUE(is_measured(gpu::load_gpu_profile(name))) << name;
  }
  for (const char* name : {"l40s", "rtx-4090", "mi300x", "b200-sxm", "h20"}) {
    EXPECT_FALSE(is_measured(gpu::load_gpu_profile(name))) << name;
  }
}

TEST(Extrapolation, WhatWasMeasuredIsNotWarnedOf) {
  const gpu::GpuProfile h100 = gpu::load_gpu_profile("h100-sxm");
  Setting setting = plain();
  setting.compression.stages = {kv::Quantize{.k_format = "fp8", .v_format = "fp8"}, kv::Evict{}};
  setting.context_tokens = 131072;
  setting.tensor_parallel = 8;
  EXPECT_THAT(extrapolations(setting, &h100), IsEmpty());
}

// One beyond each edge.
TEST(Extrapolation, EachEdgeOfTheMeasurementsHasItsSentence) {
  const gpu::GpuProfile l40s = gpu::load_gpu_profile("l40s");
  Setting setting = plain();
  setting.compression.stages = {kv::Quantize{.k_format = "int4", .v_format = "fp16"}};
  setting.context_tokens = 131073;
  setting.tensor_parallel = 9;
  EXPECT_THAT(extrapolations(setting, &l40s), ElementsAre(HasSubstr("measured on l40s"), HasSubstr("reads int4 KV"),
                                                          HasSubstr("not at 131073"), HasSubstr("not on 9")));
}

// Rows of an H100 are of bf16 and fp8; int4 weights were measured on an A100 alone, and no serving run had less than 16 bits.
TEST(Extrapolation, WeightsOutsideTheRowsAreToldOf) {
  const gpu::GpuProfile h100 = gpu::load_gpu_profile("h100-sxm"), a100 = gpu::load_gpu_profile("a100-sxm-80gb");
  Setting setting = plain();
  setting.weights.format = WeightFormat::fp8_block;
  EXPECT_THAT(extrapolations(setting, &h100), IsEmpty());
  setting.weights.format = WeightFormat::w4a16;
  EXPECT_THAT(extrapolations(setting, &a100), IsEmpty());
  EXPECT_THAT(extrapolations(setting, &h100), ElementsAre(HasSubstr("multiplies w4a16 weights on h100-sxm")));
  setting.weights.format = WeightFormat::fp8;  // on an A100 as weights alone
  EXPECT_THAT(extrapolations(setting, &a100), IsEmpty());
  setting.serving.emplace();
  EXPECT_THAT(extrapolations(setting, &h100), ElementsAre(HasSubstr("weights of 16 bits, not fp8")));
}

// Powers of two from 1 up to 2,048 sequences of 2,048 positions, 1,024 of 8,192, 256 of 16,384 and 128 of 131,072 have rows.
TEST(Extrapolation, BatchesEndWhereTheRowsDo) {
  const gpu::GpuProfile h100 = gpu::load_gpu_profile("h100-sxm");
  Setting setting = plain();
  const auto said = [&](std::int64_t context, std::vector<std::int64_t> batches) {
    setting.context_tokens = context;
    return extrapolations(setting, &h100, batches);
  };
  EXPECT_THAT(said(2048, {2048, 1}), IsEmpty());
  EXPECT_THAT(said(2049, {1024}), IsEmpty());
  EXPECT_THAT(said(16384, {256}), IsEmpty());
  EXPECT_THAT(said(131072, {128, 8}), IsEmpty());
  EXPECT_THAT(said(2048, {4096}), ElementsAre(HasSubstr("up to 2048 sequences of 2048 positions, not on more")));
  EXPECT_THAT(said(2049, {8, 2048}), ElementsAre(HasSubstr("up to 1024 sequences of 8192")));
  EXPECT_THAT(said(8193, {512}), ElementsAre(HasSubstr("up to 256 sequences of 16384")));
  EXPECT_THAT(said(131072, {256}), ElementsAre(HasSubstr("up to 128 sequences of 131072")));
  EXPECT_THAT(said(4096, {16, 17}), ElementsAre(HasSubstr("powers of two")));
  EXPECT_THAT(said(131073, {255}),
              ElementsAre(HasSubstr("not at 131073"), HasSubstr("up to 128"), HasSubstr("powers of two")));
}

// The means of 928 rows of 291 prompts (docs/how-far-to-trust.md): int4 0.04 for 0.03 nat, int2 5.2 for 6.8, pools of two 5.1 for
// 9.2; no other form was recorded.
TEST(Extrapolation, LossesSayHowTheyComparedWithRealAnswers) {
  Setting setting = plain();
  setting.compression.stages = {kv::Quantize{.k_format = "int4", .v_format = "int4"}};
  EXPECT_THAT(extrapolations(setting, nullptr), IsEmpty());
  setting.compression.stages = {kv::Quantize{.k_format = "int2", .v_format = "nvfp4"}};
  EXPECT_THAT(extrapolations(setting, nullptr),
              ElementsAre(HasSubstr("int2 caches come out too low: on 291 real prompts 5.2 nats for 6.8"),
                          HasSubstr("nvfp4 caches were never compared")));
  setting.compression.stages = {kv::Pool{.width = 2}, kv::LowRank{}};
  EXPECT_THAT(extrapolations(setting, nullptr),
              ElementsAre(HasSubstr("pooled caches come out too low"), HasSubstr("low-rank caches were never")));
}

TEST(Extrapolation, RealAnswersAreOfBlocksFrom32To128) {
  Setting setting = plain();
  setting.compression.stages = {kv::Evict{}};
  for (const std::int64_t block : {32, 128}) {
    setting.compression.block_size = block;
    EXPECT_THAT(extrapolations(setting, nullptr), IsEmpty()) << block;
  }
  for (const std::int64_t block : {31, 129}) {
    setting.compression.block_size = block;
    EXPECT_THAT(extrapolations(setting, nullptr), ElementsAre(HasSubstr("blocks of 32 to 128"))) << block;
  }
}

TEST(Extrapolation, OnlyWhatIsMeasuredIsWarnedOf) {
  Setting setting = plain();
  setting.measure.loss = false;
  setting.compression.stages = {kv::Pool{}, kv::Evict{}};
  EXPECT_THAT(extrapolations(setting, nullptr), IsEmpty());
  setting.serving.emplace().engine = "sglang";
  EXPECT_THAT(extrapolations(setting, nullptr), ElementsAre(HasSubstr("not of sglang"), HasSubstr("evicts")));
}

}  // namespace
}  // namespace kvtide::experiment

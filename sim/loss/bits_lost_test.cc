#include "loss/bits_lost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "kv/compression/compression.h"
#include "loss/hand_made_heads.h"

namespace kvtide::loss {
namespace {

TEST(BitsLost, StaysBetweenNothingAndEverything) {
  const double floor = std::exp2(-2 * kFp16Bits);
  EXPECT_EQ(bits_lost_at_distortion(0), 0);
  EXPECT_EQ(bits_lost_at_distortion(floor), 0);
  EXPECT_NEAR(bits_lost_at_distortion(4 * floor), 1, 1e-12);  // twice the error, one bit
  EXPECT_NEAR(bits_lost_at_distortion(1), kFp16Bits, 1e-12);
  EXPECT_NEAR(bits_lost_at_distortion(7), kFp16Bits, 1e-12);
}

// The mean squared error of fp16 rounding of a unit Gaussian x in [2^e, 2^(e+1)) is (2^(e-10))^2 / 12. Summed over
// binades it is 2^(-2 * 12.23): the constant is what fp16 itself holds.
TEST(BitsLost, ReferenceIsTheRoundingErrorOfHalfPrecision) {
  double error = 0;
  for (int e = -14; e <= 3; ++e) {
    const double probability = std::erf(std::exp2(e + 1) / std::sqrt(2.0)) - std::erf(std::exp2(e) / std::sqrt(2.0));
    error += probability * std::pow(std::exp2(e - 10), 2) / 12;
  }
  EXPECT_NEAR(-0.5 * std::log2(error), kFp16Bits, 0.01);
}

std::vector<double> measure(const kv::HeadTensors& head, const kv::HeadCache& cache) {
  const HeadReference reference = make_head_reference(head, {0, head.q_positions.back()});
  return bits_lost(reference, compare_head(reference, cache, false), *cache.entries);
}

TEST(BitsLost, EvictedLosesAllUntouchedNothingValueOnlyHalf) {
  const kv::HeadTensors head = white_head(64, 1, 16);
  kv::HeadCache cache = evict(head, [](std::int64_t j) { return j != 3; });
  cache.entries->v.row(5).array() += 100;  // far beyond the variance
  const std::vector<double> bits = measure(head, cache);
  EXPECT_EQ(bits[3], kFp16Bits);
  EXPECT_EQ(bits[4], 0);
  EXPECT_NEAR(bits[5], kFp16Bits / 2, 1e-12);
}

// T5: rounding to 16 levels over a range R has squared error (R/15)^2/12; 32 unit Gaussians span 4.1 sd on average, so
// D = 0.0062 and 1/2 log2(1/D) = 3.67 bits remain (3.68 measured elsewhere): 8.55 of 12.23 are lost.
TEST(BitsLost, FourBitGroupsOfThirtyTwoLoseEightAndAHalfBits) {
  const kv::HeadTensors head = white_head(4096, 1, 32);
  const std::vector<double> bits = measure(head, round_rows(head, 16));
  EXPECT_NEAR(std::accumulate(bits.begin(), bits.end(), 0.0) / 4096, 12.23 - 3.68, 0.1);
}

// Bits left are 1/2 log2(1 / D), D the error of each format on a unit Gaussian as an independent program measured it: 2.86e-5 (7.55
// bits), 7.0e-4 (5.24), 6.12e-3 (3.68), 9.03e-3 (3.40), 1.32e-2 (3.12), 0.154 (1.35). A row's D is a mean over 128 channels, and the
// mean of its logarithm lies below the logarithm of the mean by 0.72 times half the square of its relative sd: less than 0.03 at 25 %.
TEST(BitsLost, EveryFormatLeavesWhatItsErrorAllows) {
  const kv::HeadTensors head = white_head(2048, 1, 128);
  const kv::LayerTensors layer{head};
  const HeadReference reference = make_head_reference(head, {0, head.q_positions.back()});
  for (const auto& [format, left] : std::vector<std::pair<std::string, double>>{
           {"q8_0", 7.55}, {"fp8_e4m3", 5.24}, {"int4", 3.68}, {"nvfp4", 3.40}, {"mxfp4", 3.12}, {"int2", 1.35}}) {
    kv::Compression setting;
    setting.block_size = 128;
    setting.sinks = 0;
    setting.window = 0;
    setting.stages = {kv::Quantize{.k_format = format, .v_format = format}};
    const kv::LayerCache cache = kv::compress_layer(setting, 2048, 1, 128, {}, &layer);
    const kv::EntryTable& entries = *cache.heads.front().entries;
    const std::vector<double> bits = bits_lost(reference, compare_head(reference, cache.heads.front(), false), entries);
    EXPECT_NEAR(std::accumulate(bits.begin(), bits.end(), 0.0) / 2048, 12.23 - left, 0.05) << format;
  }
}

TEST(BitsLost, ConstantChannelsAreLeftOut) {
  for (const std::int64_t channels : {4, 24}) {  // one by one, eight at once
    kv::HeadTensors head = white_head(3000, 1, channels);
    const std::int64_t num_constant = channels / 2;  // numbers whose squares add up to no whole number of units
    for (std::int64_t channel = 0; channel < num_constant; ++channel) {
      head.k_post.col(channel).setConstant(0.1F * static_cast<float>(channel + 1));
    }
    kv::HeadCache cache = identity_cache(head);
    cache.entries->k.row(7).head(num_constant).setConstant(3);  // errors in channels that tell nothing
    EXPECT_EQ(measure(head, cache)[7], 0) << channels;
  }
}

}  // namespace
}  // namespace kvtide::loss

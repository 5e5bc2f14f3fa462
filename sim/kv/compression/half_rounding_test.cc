#include "kv/compression/half_rounding.h"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cmath>
#include <limits>

#include "base/random.h"

namespace kvtide::kv {
namespace {

/// Another program's conversion there and back (Eigen's, by the processor or its own tables).
float reference(float value) {
  return static_cast<float>(static_cast<Eigen::half>(value));
}

/// Nearly 20,000 patterns of 32 bits, those that are no number left out.
std::vector<float> any_patterns(std::uint64_t seed) {
  RandomStream random(seed, "half_rounding");
  std::vector<float> values;
  for (int i = 0; i < 20'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random.below(std::uint64_t{1} << 32U)));
    if (!std::isnan(value)) values.push_back(value);
  }
  return values;
}

TEST(HalfRounding, EveryHalfIsItsOwnNumber) {
  for (std::uint32_t code = 0; code < 0x10000U; ++code) {
    const auto half = Eigen::half_impl::raw_uint16_to_half(static_cast<std::uint16_t>(code));
    const auto value = static_cast<float>(Eigen::half(half));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(nearest_half(value))) << code;
    } else {
      EXPECT_EQ(nearest_half(value), value) << code;
      EXPECT_EQ(std::signbit(nearest_half(value)), std::signbit(value)) << code;
    }
  }
}

// Between neighbours low and high the middle (exact in float32) goes to the even one, and a step beside it to the nearer.
TEST(HalfRounding, TiesGoToTheEvenNeighbourAndNothingElseDoes) {
  for (std::uint16_t code = 0; code < 0x7BFF; ++code) {
    const float low = static_cast<float>(Eigen::half(Eigen::half_impl::raw_uint16_to_half(code)));
    const float high =
        static_cast<float>(Eigen::half(Eigen::half_impl::raw_uint16_to_half(static_cast<std::uint16_t>(code + 1))));
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(nearest_half(middle), code % 2 == 0 ? low : high) << middle;
    ASSERT_EQ(nearest_half(std::nextafter(middle, 0.0F)), low) << middle;
    ASSERT_EQ(nearest_half(-std::nextafter(middle, 1e9F)), -high) << middle;
  }
}

// 65504 is the largest; its step is 32: from 65520, the middle to what would be next, on it is infinite.
TEST(HalfRounding, BeyondTheLargestIsInfinite) {
  EXPECT_EQ(nearest_half(65504.0F), 65504.0F);
  EXPECT_EQ(nearest_half(std::nextafter(65520.0F, 0.0F)), 65504.0F);
  EXPECT_EQ(nearest_half(65520.0F), std::numeric_limits<float>::infinity());
  EXPECT_EQ(nearest_half(-1e30F), -std::numeric_limits<float>::infinity());
}

TEST(HalfRounding, AnyPatternOfBitsIsRoundedAsElsewhere) {
  std::vector<float> values = any_patterns(1);
  std::vector<float> expected;
  for (const float value : values) expected.push_back(reference(value));
  round_to_half(values.data(), std::ssize(values));
  EXPECT_EQ(values, expected);
}

// The same three for bfloat16, beside Eigen's conversion: all 65,536 numbers are their own, the middle of two neighbours goes to
// the even one, any pattern of bits as elsewhere. 3.3961775e38 is the middle between the largest and what would be next.
TEST(HalfRounding, EveryBfloat16IsItsOwnNumberAndTiesGoToTheEven) {
  for (std::uint32_t code = 0; code < 0x10000U; ++code) {
    const auto value = std::bit_cast<float>(code << 16U);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(nearest_bfloat16(value))) << code;
      continue;
    }
    ASSERT_EQ(std::bit_cast<std::uint32_t>(nearest_bfloat16(value)), code << 16U);
    if (std::isinf(value)) continue;
    const auto middle = std::bit_cast<float>((code << 16U) + 0x8000U);
    const auto next = std::bit_cast<float>((code + 1) << 16U);
    ASSERT_EQ(nearest_bfloat16(middle), code % 2 == 0 ? value : next) << code;
    ASSERT_EQ(nearest_bfloat16(std::bit_cast<float>((code << 16U) + 0x7FFFU)), value) << code;
    ASSERT_EQ(nearest_bfloat16(std::bit_cast<float>((code << 16U) + 0x8001U)), next) << code;
  }
  EXPECT_EQ(nearest_bfloat16(257.0F), 256.0F);
  EXPECT_EQ(nearest_bfloat16(3.3961776e38F), std::numeric_limits<float>::infinity());
}

TEST(HalfRounding, AnyPatternOfBitsIsRoundedToBfloat16AsElsewhere) {
  std::vector<float> values = any_patterns(2);
  std::vector<float> expected;
  for (const float value : values) expected.push_back(static_cast<float>(static_cast<Eigen::bfloat16>(value)));
  round_to_bfloat16(values.data(), std::ssize(values));
  EXPECT_EQ(values, expected);
}

}  // namespace
}  // namespace kvtide::kv

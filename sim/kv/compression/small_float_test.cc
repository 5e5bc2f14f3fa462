#include "kv/compression/small_float.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"

namespace kvtide::kv {
namespace {

/// Finite magnitudes in ascending order, from the format's definition alone: subnormals m 2^(1-bias-M), then
/// (1 + m 2^-M) 2^(e-bias).
std::vector<float> magnitudes(int exponent_bits, int mantissa_bits, int bias, int num_finite) {
  std::vector<float> values;
  const int per_exponent = 1 << mantissa_bits;
  for (int code = 0; code < num_finite; ++code) {
    const int exponent = code / per_exponent;
    const double fraction = static_cast<double>(code % per_exponent) / per_exponent;
    values.push_back(static_cast<float>(exponent == 0 ? fraction * std::pow(2.0, 1 - bias)
                                                      : (1 + fraction) * std::pow(2.0, exponent - bias)));
  }
  EXPECT_LE(num_finite, 1 << (exponent_bits + mantissa_bits));
  return values;
}

struct Case {
  const char* name;
  SmallFloat format;
  int num_finite;
};

// E4M3: all but one of 128 magnitudes are finite; E5M2: the top exponent (4 codes) is not; E2M1: all 8 are.
const std::vector<Case> kCases{{"E4M3", kE4M3, 127}, {"E5M2", kE5M2, 124}, {"E2M1", kE2M1, 8}};

TEST(SmallFloat, EveryFiniteCodeIsItsOwnNumber) {
  for (const Case& c : kCases) {
    const auto values = magnitudes(c.format.exponent_bits, c.format.mantissa_bits, c.format.bias, c.num_finite);
    const int sign = 1 << (c.format.exponent_bits + c.format.mantissa_bits);
    for (int code = 0; code < c.num_finite; ++code) {
      const float value = values[static_cast<std::size_t>(code)];
      EXPECT_EQ(c.format.decode(static_cast<std::uint8_t>(code)), value) << c.name << " " << code;
      EXPECT_EQ(c.format.encode(value), code) << c.name << " " << value;
      EXPECT_EQ(c.format.decode(static_cast<std::uint8_t>(code | sign)), -value) << c.name;
      EXPECT_EQ(c.format.encode(-value), code | sign) << c.name << " " << -value;
    }
  }
}

TEST(SmallFloat, WhatIsNotFiniteDecodesSo) {
  EXPECT_TRUE(std::isnan(kE4M3.decode(0x7f)));
  EXPECT_TRUE(std::isnan(kE4M3.decode(0xff)));
  EXPECT_EQ(kE5M2.decode(0x7c), INFINITY);
  EXPECT_EQ(kE5M2.decode(0xfc), -INFINITY);
  for (const int code : {0x7d, 0x7e, 0x7f, 0xfd, 0xfe, 0xff}) {
    EXPECT_TRUE(std::isnan(kE5M2.decode(static_cast<std::uint8_t>(code)))) << code;
  }
}

TEST(SmallFloat, RoundsToNearestAndTiesToTheEvenCode) {
  for (const Case& c : kCases) {
    const auto values = magnitudes(c.format.exponent_bits, c.format.mantissa_bits, c.format.bias, c.num_finite);
    for (int code = 0; code + 1 < c.num_finite; ++code) {
      const float low = values[static_cast<std::size_t>(code)];
      const float high = values[static_cast<std::size_t>(code) + 1];
      const float middle = low + (high - low) / 2;  // exact in float32
      EXPECT_EQ(c.format.encode(middle), code % 2 == 0 ? code : code + 1) << c.name << " " << middle;
      EXPECT_EQ(c.format.encode(std::nextafter(middle, 0.0F)), code) << c.name << " below " << middle;
      EXPECT_EQ(c.format.encode(std::nextafter(middle, 1e9F)), code + 1) << c.name << " above " << middle;
    }
  }
}

// round() works on the bits, encode() by powers of two: the same number, whatever the value, and round_all() the same again.
TEST(SmallFloat, RoundingIsDecodingTheCode) {
  RandomStream random(1, "small_float");
  for (const Case& c : kCases) {
    std::vector<float> values;
    std::vector<float> expected;
    for (int i = 0; i < 5000; ++i) {
      // From far below the smallest subnormal to beyond the largest number.
      const auto value =
          static_cast<float>(std::ldexp(random.uniform() * 2 - 1, static_cast<int>(random.below(44)) - 24));
      values.push_back(value);
      expected.push_back(c.format.decode(c.format.encode(value)));
      ASSERT_EQ(c.format.round(value), expected.back()) << c.name << " " << value;
      ASSERT_EQ(std::signbit(c.format.round(value)), std::signbit(value)) << c.name << " " << value;
    }
    c.format.round_all(values.data(), static_cast<std::int64_t>(values.size()));
    EXPECT_EQ(values, expected) << c.name;
  }
}

TEST(SmallFloat, SaturatesAtTheLargestFiniteNumber) {
  EXPECT_EQ(kE4M3.round(449.0F), 448.0F);
  EXPECT_EQ(kE4M3.round(1e30F), 448.0F);
  EXPECT_EQ(kE4M3.round(-INFINITY), -448.0F);
  EXPECT_EQ(kE5M2.round(1e30F), 57344.0F);
  EXPECT_EQ(kE2M1.round(-7.0F), -6.0F);
  EXPECT_TRUE(std::isnan(kE4M3.round(NAN)));
  EXPECT_EQ(kE2M1.round(-NAN), 6.0F);  // a format without it
}

}  // namespace
}  // namespace kvtide::kv

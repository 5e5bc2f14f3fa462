#include "kv/compression/small_float.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/vector_width.h"

namespace kvtide::kv {
namespace {

/// Distance of representable numbers around `magnitude`, as an exponent of two.
std::int32_t quantum_exponent(const SmallFloat& format, float magnitude) {
  const std::int32_t smallest = 1 - format.bias;
  const std::int32_t exponent = magnitude > 0 ? std::max(std::ilogb(magnitude), smallest) : smallest;
  return exponent - format.mantissa_bits;
}

}  // namespace

KVTIDE_EVERY_VECTOR_WIDTH
void SmallFloat::round_all(float* values, std::int64_t count) const {
  const SmallFloat format = *this;
  for (std::int64_t index = 0; index < count; ++index) values[index] = format.round(values[index]);
}

std::uint8_t SmallFloat::encode(float value) const {
  const std::int32_t sign_place = exponent_bits + mantissa_bits;
  const std::uint32_t sign = std::signbit(value) ? 1U << sign_place : 0U;
  if (std::isnan(value) && has_nan) return static_cast<std::uint8_t>((1U << sign_place) - 1U);
  const float magnitude = std::abs(round(value));
  const std::int32_t quantum = quantum_exponent(*this, magnitude);
  const auto steps = static_cast<std::uint32_t>(std::ldexp(magnitude, -quantum));
  const auto hidden = 1U << mantissa_bits;
  // Below `hidden` the number is subnormal and its steps are the code.
  const std::uint32_t exponent = steps < hidden ? 0U : static_cast<std::uint32_t>(quantum + mantissa_bits + bias);
  const std::uint32_t mantissa = steps < hidden ? steps : steps - hidden;
  return static_cast<std::uint8_t>(sign | (exponent << mantissa_bits) | mantissa);
}

float SmallFloat::decode(std::uint8_t code) const {
  const std::uint32_t hidden = 1U << mantissa_bits;
  const std::uint32_t top = (1U << exponent_bits) - 1U;
  const std::uint32_t mantissa = code & (hidden - 1U);
  const std::uint32_t exponent = (code >> mantissa_bits) & top;
  const bool is_negative = ((code >> (exponent_bits + mantissa_bits)) & 1U) != 0;
  float magnitude = 0;
  if (has_infinity && exponent == top) {
    magnitude = mantissa == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else if (has_nan && exponent == top && mantissa == hidden - 1U) {
    magnitude = std::numeric_limits<float>::quiet_NaN();
  } else {
    const std::uint32_t steps = exponent == 0 ? mantissa : hidden + mantissa;
    const std::int32_t place = exponent == 0 ? 1 : static_cast<std::int32_t>(exponent);
    magnitude = std::ldexp(static_cast<float>(steps), place - bias - mantissa_bits);
  }
  return is_negative ? -magnitude : magnitude;
}

}  // namespace kvtide::kv

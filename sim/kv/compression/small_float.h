#pragma once
// Floating point numbers of 4 and 8 bits, coded as hardware does: round to nearest, ties to the even code, and what
// exceeds the largest finite number becomes that number (saturation, as cvt.rn.satfinite on NVIDIA GPUs).
//
// Example, E4M3: 0.3 lies between 0.28125 and 0.3125; the latter is nearer; its code is 0x2a (exponent 5 - 7, mantissa 2/8:
// 2^-2 * 1.25).

#include <bit>
#include <cstdint>

namespace kvtide::kv {

struct SmallFloat {
  std::int32_t exponent_bits = 4;
  std::int32_t mantissa_bits = 3;
  std::int32_t bias = 7;
  float largest = 448;        ///< finite
  bool has_infinity = false;  ///< the top exponent is infinity and NaN (IEEE 754); else all of it but one NaN is finite
  bool has_nan = true;

  /// @return sign, exponent, mantissa from the top; NaN where there is one, else the largest for a NaN
  [[nodiscard]] std::uint8_t encode(float value) const;
  [[nodiscard]] float decode(std::uint8_t code) const;
  /// decode(encode(value)), without the code between: in integer operations, so that a loop of it runs in vector registers.
  [[nodiscard]] float round(float value) const;
  /// round() of each of `count` values.
  void round_all(float* values, std::int64_t count) const;
};

inline float SmallFloat::round(float value) const {
  constexpr std::uint32_t kSignless = 0x7FFFFFFFU;
  constexpr std::uint32_t kInfinity = 0x7F800000U;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & kSignless;
  const auto top = std::bit_cast<std::uint32_t>(largest);
  const std::uint32_t bounded = magnitude < top ? magnitude : top;
  const auto dropped = static_cast<std::uint32_t>(23 - mantissa_bits);
  const std::uint32_t last = 1U << dropped;
  const std::uint32_t normal = (bounded + last / 2 - 1 + ((bounded >> dropped) & 1U)) & ~(last - 1);
  // Below 2^(1 - bias) numbers are 2^(1 - bias - mantissa) apart, which is how far float32 are apart 23 binades higher.
  const auto spacing = std::bit_cast<float>(static_cast<std::uint32_t>(127 + 24 - bias - mantissa_bits) << 23U);
  const auto subnormal = std::bit_cast<std::uint32_t>((std::bit_cast<float>(bounded) + spacing) - spacing);
  std::uint32_t result = bounded < static_cast<std::uint32_t>(128 - bias) << 23U ? subnormal : normal;
  const bool is_number = magnitude <= kInfinity;
  result = is_number ? result : has_nan ? magnitude : top;
  return std::bit_cast<float>(result | (is_number || has_nan ? bits & ~kSignless : 0U));
}

/// OCP 8-bit Floating Point Specification (OFP8), revision 1.0, table 1.
inline constexpr SmallFloat kE4M3{};
inline constexpr SmallFloat kE5M2{5, 2, 15, 57344, true, true};
/// OCP Microscaling Formats (MX) Specification 1.0, section 5.3.3: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
inline constexpr SmallFloat kE2M1{2, 1, 1, 6, false, false};

}  // namespace kvtide::kv

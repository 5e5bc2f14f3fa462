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
  /// The same of a number.
  [[nodiscard]] float round_number(float value) const;
  /// Whose sum with a magnitude up to the largest is rounded as the format does. Numbers of a binade, from 2^(1 - bias) on, are
  /// as far apart as float32 are so many binades higher as their mantissa is shorter: the first number there.
  [[nodiscard]] float spacing_at(float magnitude) const;
  /// round() of each of `count` values.
  void round_all(float* values, std::int64_t count) const;
};

inline constexpr std::uint32_t kSignless = 0x7FFFFFFFU;
inline constexpr std::uint32_t kInfinityBits = 0x7F800000U;

inline float SmallFloat::spacing_at(float magnitude) const {
  const auto smallest = static_cast<std::uint32_t>(128 - bias) << 23U;
  const auto higher = static_cast<std::uint32_t>(23 - mantissa_bits) << 23U;
  const std::uint32_t binade = std::bit_cast<std::uint32_t>(magnitude) & kInfinityBits;
  return std::bit_cast<float>((binade > smallest ? binade : smallest) + higher);
}

inline float SmallFloat::round_number(float value) const {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & kSignless;
  const auto top = std::bit_cast<std::uint32_t>(largest);
  const auto bounded = std::bit_cast<float>(magnitude < top ? magnitude : top);
  const float spacing = spacing_at(bounded);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>((bounded + spacing) - spacing) | (bits & ~kSignless));
}

inline float SmallFloat::round(float value) const {
  const bool is_number = (std::bit_cast<std::uint32_t>(value) & kSignless) <= kInfinityBits;
  const float rounded = round_number(value);
  return is_number ? rounded : has_nan ? value : largest;
}

/// OCP 8-bit Floating Point Specification (OFP8), revision 1.0, table 1.
inline constexpr SmallFloat kE4M3{};
inline constexpr SmallFloat kE5M2{5, 2, 15, 57344, true, true};
/// OCP Microscaling Formats (MX) Specification 1.0, section 5.3.3: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
inline constexpr SmallFloat kE2M1{2, 1, 1, 6, false, false};

}  // namespace kvtide::kv

#pragma once
// Floating point numbers of 4 and 8 bits, coded as hardware does: round to nearest, ties to the even code, and what
// exceeds the largest finite number becomes that number (saturation, as cvt.rn.satfinite on NVIDIA GPUs).
//
// Example, E4M3: 0.3 lies between 0.28125 and 0.3125; the latter is nearer; its code is 0x2a (exponent 5 - 7, mantissa 2/8:
// 2^-2 * 1.25).

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
  /// decode(encode(value)), without the code between.
  [[nodiscard]] float round(float value) const;
};

/// OCP 8-bit Floating Point Specification (OFP8), revision 1.0, table 1.
inline constexpr SmallFloat kE4M3{};
inline constexpr SmallFloat kE5M2{5, 2, 15, 57344, true, true};
/// OCP Microscaling Formats (MX) Specification 1.0, section 5.3.3: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
inline constexpr SmallFloat kE2M1{2, 1, 1, 6, false, false};

}  // namespace kvtide::kv

#pragma once
// What a float32 is after a trip through IEEE 754 binary16: to nearest, ties to even, beyond 65504 + 16 infinite. In integer
// operations without branches, so that a loop of it runs in vector registers; no fp16 instructions needed.
//
// Example: 2049 lies between 2048 and 2050 (11 significant bits), a tie: 2048, whose last bit is even.

#include <bit>
#include <cstdint>

namespace kvtide::kv {

[[nodiscard]] inline float nearest_half(float value) {
  constexpr std::uint32_t kSignless = 0x7FFFFFFFU;
  constexpr std::uint32_t kInfinity = 0x7F800000U;
  constexpr std::uint32_t kSmallestNormal = 0x38800000U;  // 2^-14
  constexpr std::uint32_t kLargest = 0x477FE000U;         // 65504
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & kSignless;
  // 13 of the 23 mantissa bits go; a carry into the exponent is the right next number.
  const std::uint32_t normal = (magnitude + 0xFFFU + ((magnitude >> 13U) & 1U)) & ~0x1FFFU;
  // Below 2^-14 the numbers are 2^-24 apart, which is how far float32 are apart in 1/2..1.
  const auto subnormal = std::bit_cast<std::uint32_t>((std::bit_cast<float>(magnitude) + 0.5F) - 0.5F);
  std::uint32_t result = magnitude < kSmallestNormal ? subnormal : normal;
  result = normal > kLargest ? kInfinity : result;
  result = magnitude > kInfinity ? magnitude : result;  // not a number
  return std::bit_cast<float>(result | (bits & ~kSignless));
}

/// nearest_half of each of `count` values.
void round_to_half(float* values, std::int64_t count);

/// The same for bfloat16: the upper half of a float32, to nearest, ties to even; a carry out of the largest exponent is
/// infinity, what is no number stays one. Example: 257 lies between 256 and 258 (8 significant bits), a tie: 256.
[[nodiscard]] inline float nearest_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool is_number = (bits & 0x7FFFFFFFU) <= 0x7F800000U;
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16U) & 1U)) & 0xFFFF0000U;
  return std::bit_cast<float>(is_number ? rounded : bits);
}

/// nearest_bfloat16 of each of `count` values.
void round_to_bfloat16(float* values, std::int64_t count);

}  // namespace kvtide::kv

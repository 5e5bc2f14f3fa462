#pragma once
// The exponential of softmax rows, written so that a compiler makes vectors of it.

#include <algorithm>
#include <bit>
#include <cstdint>

namespace kvtide::kv {

/// e^x = 2^whole (1 + rest)
struct ReducedExponent {
  std::uint32_t whole = 0;  ///< low bits of a number in two's complement
  float rest = 0;
};

inline ReducedExponent reduce_exponent(float x) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  const float shifted = x * 1.44269504F + kRound;
  const float whole = shifted - kRound;
  float r = x - whole * 0.693359375F;
  r -= whole * -2.12194440e-4F;
  float q = 1.38145e-3F;
  q = q * r + 8.36878e-3F;
  q = q * r + 4.166839e-2F;
  q = q * r + 1.666652e-1F;
  q = q * r + 4.9999993e-1F;
  return {std::bit_cast<std::uint32_t>(shifted), q * (r * r) + r};
}

/// e^x for x <= 0: 2^n e^r with |r| <= ln2/2, and 1 + r + r^2 q(r) with a minimax q, within 3e-9 of e^r.
inline float exponential(float x) {
  constexpr std::uint32_t kSmallest =
      0xC2AE0000U;  // bits of -87: of two numbers below 0 the higher bits are the lower one
  const ReducedExponent e = reduce_exponent(std::bit_cast<float>(std::min(std::bit_cast<std::uint32_t>(x), kSmallest)));
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(e.rest + 1.0F) + (e.whole << 23U));
}

/// e^x - 1 for x <= 88, within 2e-7 of itself: 2^n (e^r - 1) + (2^n - 1), which for small x is its first term alone.
inline float exponential_minus_one(float x) {
  const ReducedExponent e = reduce_exponent(x > -87.0F ? x : -87.0F);
  const auto power = std::bit_cast<float>((e.whole + 127U) << 23U);
  return power * e.rest + (power - 1.0F);
}

}  // namespace kvtide::kv

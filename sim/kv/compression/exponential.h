#pragma once
// The exponential of softmax rows, written so that a compiler makes vectors of it.

#include <algorithm>
#include <bit>
#include <cstdint>

namespace kvtide::kv {

/// e^x for x <= 0: 2^n e^r with |r| <= ln2/2, and 1 + r + r^2 q(r) with a minimax q, within 3e-9 of e^r.
inline float exponential(float x) {
  constexpr std::uint32_t kSmallest =
      0xC2AE0000U;                       // bits of -87: of two numbers below 0 the higher bits are the lower one
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  const float bounded = std::bit_cast<float>(std::min(std::bit_cast<std::uint32_t>(x), kSmallest));
  const float shifted = bounded * 1.44269504F + kRound;
  const float whole = shifted - kRound;
  float r = bounded - whole * 0.693359375F;
  r -= whole * -2.12194440e-4F;
  float q = 1.38145e-3F;
  q = q * r + 8.36878e-3F;
  q = q * r + 4.166839e-2F;
  q = q * r + 1.666652e-1F;
  q = q * r + 4.9999993e-1F;
  const float p = q * (r * r) + r + 1.0F;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) + (std::bit_cast<std::uint32_t>(shifted) << 23U));
}

}  // namespace kvtide::kv

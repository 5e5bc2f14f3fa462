#pragma once
// The period of a noise-free curve: the prefix sensitivity of a deterministic policy repeats exactly, or not at all.
//
// Example: 0 1 2 1 0 1 2 1 0 repeats after 4 samples (5 further values agree); 0 1 2 3 4 does not repeat.

#include <cstdint>
#include <span>

namespace kvtide::loss {

struct CurvePeriod {
  std::int64_t samples = 0;   ///< smallest lag at which the curve repeats; 0: none, or the curve is constant
  std::int64_t agreeing = 0;  ///< values that the repetition explains
};

/// The curve must cover two periods. Values that differ by 1e-9 of the curve's range count as equal.
[[nodiscard]] CurvePeriod find_curve_period(std::span<const double> curve);

}  // namespace kvtide::loss

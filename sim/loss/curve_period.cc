#include "loss/curve_period.h"

#include <algorithm>
#include <cmath>

namespace kvtide::loss {

CurvePeriod find_curve_period(std::span<const double> curve) {
  if (curve.size() < 4) return {};
  const auto [low, high] = std::ranges::minmax(curve);
  const double tolerance = 1e-9 * (high - low);
  if (!(high - low > 1e-12)) return {};
  for (std::size_t lag = 2; 2 * lag <= curve.size(); ++lag) {
    std::size_t index = lag;
    while (index < curve.size() && std::abs(curve[index] - curve[index - lag]) <= tolerance) ++index;
    if (index == curve.size()) {
      return {static_cast<std::int64_t>(lag), static_cast<std::int64_t>(curve.size() - lag)};
    }
  }
  return {};
}

}  // namespace kvtide::loss

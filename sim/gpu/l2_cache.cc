#include "gpu/l2_cache.h"

#include <cmath>

namespace kvtide::gpu {

double cyclic_hit_rate(double swept_bytes, double capacity_bytes) {
  if (swept_bytes <= capacity_bytes) return 1;
  constexpr double kReplacementExponent = 2;  // see the header
  const double oversubscription = std::pow(swept_bytes / capacity_bytes, kReplacementExponent);
  // Newton's method from below on f(h) = h - exp(-x (1 - h)): f is concave, f(0) < 0, so the iterates rise to the
  // smaller root; the larger one, h = 1, is the state that a sweep beyond capacity cannot reach.
  double hit_rate = 0;
  for (int iteration = 0; iteration < 60; ++iteration) {
    const double survival = std::exp(-oversubscription * (1 - hit_rate));
    const double step = (survival - hit_rate) / (1 - oversubscription * survival);
    hit_rate += step;
    if (std::abs(step) < 1e-12) break;
  }
  return hit_rate;
}

}  // namespace kvtide::gpu

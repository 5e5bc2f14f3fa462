#pragma once
// Noise with a memory but no period: what a period search must not find one in.

#include <cmath>
#include <vector>

#include "base/random.h"

namespace kvtide::loss {

/// AR(1) of unit variance: x[j+1] = rho x[j] + sqrt(1 - rho^2) e. `rho` in (-1, 1); 0 is white noise.
inline std::vector<double> autoregressive(std::int64_t positions, double rho, std::uint64_t seed) {
  RandomStream random(seed, "test.noise");
  std::vector<double> noise;
  double value = random.normal();
  for (std::int64_t j = 0; j < positions; ++j) {
    noise.push_back(value);
    value = rho * value + std::sqrt(1 - rho * rho) * random.normal();
  }
  return noise;
}

}  // namespace kvtide::loss

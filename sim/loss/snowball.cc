#include "loss/snowball.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace kvtide::loss {
namespace {

/// Between these shares some readers see the source and some do not.
constexpr double kHardlyKept = 0.2;
constexpr double kMostlyKept = 0.8;
constexpr double kSmallestProbability = 1e-300;

}  // namespace

Snowball estimate_snowball(std::span<const double> full_probability, std::span<const double> kept, double choices) {
  KVTIDE_ASSERT(full_probability.size() == kept.size() && choices >= 1, "one kept share a step, one choice at least");
  Snowball result;
  double survival = 1;
  for (std::size_t step = 0; step < kept.size(); ++step) {
    const double share = std::clamp(kept[step], 0.0, 1.0);
    const double probability = share * full_probability[step] + (1 - share) / choices;
    result.token_probability.push_back(probability);
    result.log_probability += std::log(std::max(probability, kSmallestProbability));
    survival *= probability;
    result.survival.push_back(survival);
    result.expected_right_tokens += survival;
    if (share > kHardlyKept && share < kMostlyKept) result.is_trusted = false;
  }
  return result;
}

}  // namespace kvtide::loss

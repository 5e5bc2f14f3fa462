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

Snowball follow_path(std::span<const double> token_probability, std::span<const double> kept) {
  KVTIDE_ASSERT(token_probability.size() == kept.size(), "one kept share a step");
  Snowball result;
  result.token_probability.assign(token_probability.begin(), token_probability.end());
  double survival = 1;
  for (std::size_t step = 0; step < kept.size(); ++step) {
    result.log_probability += std::log(std::max(token_probability[step], kSmallestProbability));
    survival *= token_probability[step];
    result.survival.push_back(survival);
    result.expected_right_tokens += survival;
    if (kept[step] > kHardlyKept && kept[step] < kMostlyKept) result.is_trusted = false;
  }
  return result;
}

Snowball estimate_snowball(std::span<const double> full_probability, std::span<const double> kept, double choices) {
  KVTIDE_ASSERT(full_probability.size() == kept.size() && choices >= 1, "one kept share a step, one choice at least");
  std::vector<double> probability;
  for (std::size_t step = 0; step < kept.size(); ++step) {
    const double share = std::clamp(kept[step], 0.0, 1.0);
    probability.push_back(share * full_probability[step] + (1 - share) / choices);
  }
  return follow_path(probability, kept);
}

}  // namespace kvtide::loss

#include "loss/head_periods.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "loss/fold_index.h"

namespace kvtide::loss {
namespace {

constexpr double kMostRotations = 1e7;
constexpr std::int64_t kFewestRotations = 999;

}  // namespace

std::vector<std::uint8_t> benjamini_hochberg(std::span<const double> p, double q) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] < p[b]; });
  std::size_t found = 0;
  for (std::size_t rank = 1; rank <= order.size(); ++rank) {
    if (p[order[rank - 1]] <= static_cast<double>(rank) * q / static_cast<double>(p.size())) found = rank;
  }
  std::vector<std::uint8_t> result(p.size(), 0);
  for (std::size_t rank = 0; rank < found; ++rank) result[order[rank]] = 1;
  return result;
}

HeadPeriods find_head_periods(const std::vector<std::vector<double>>& profiles, std::span<const std::int64_t> periods,
                              std::uint64_t seed, double q) {
  HeadPeriods result;
  result.q = q;
  result.period.assign(periods.begin(), periods.end());
  const auto tests = static_cast<double>(profiles.size() * periods.size());
  if (tests / q > kMostRotations) {
    throw InputError(
        fmt::format("{:.0f} tests at a false-discovery rate of {:g} need {:.0f} rotations each, more than {:.0f}",
                    tests, q, tests / q, kMostRotations));
  }
  result.rotations = std::max(kFewestRotations, static_cast<std::int64_t>(std::ceil(tests / q)));
  for (const auto& profile : profiles) {
    for (const std::int64_t period : periods) {
      const Detrended clean = detrend(profile, period);
      const bool is_constant = eta_squared(clean.values, clean.first, period) <= 0;
      const double p = is_constant ? 1.0 : rotation_p(clean.values, clean.first, period, result.rotations, seed);
      result.p.push_back(std::max(p, 1 / static_cast<double>(result.rotations + 1)));
    }
  }
  result.is_found = benjamini_hochberg(result.p, q);
  return result;
}

}  // namespace kvtide::loss

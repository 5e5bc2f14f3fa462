#include "loss/edge_grid.h"

#include <algorithm>
#include <boost/math/special_functions/zeta.hpp>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "loss/fold_index.h"

namespace kvtide::loss {
namespace {

/// M of an evicted key is 1 by definition; of a held key it is less, however little attention it gets back.
bool is_wholly_lost(double relative_loss) {
  return relative_loss >= 1 - 1e-12;
}

/// Probability that the greatest common divisor of n random integers is at least `period`:
/// sum over g >= period of g^-n / zeta(n) (Nymann, J. Number Theory 1972). 1 for n < 2.
double chance_of_any_grid(std::int64_t period, std::int64_t differences) {
  if (differences < 2) return 1;
  const auto n = static_cast<double>(differences);
  double tail = 0;
  constexpr std::int64_t kExact = 1000;
  for (std::int64_t g = period; g < period + kExact; ++g) tail += std::pow(static_cast<double>(g), -n);
  // The rest lies within the integral from half a step earlier.
  tail += std::pow(static_cast<double>(period + kExact) - 0.5, 1 - n) / (n - 1);
  return std::min(1.0, tail / boost::math::zeta(n));
}

}  // namespace

std::vector<std::int64_t> jump_positions(const std::vector<std::vector<double>>& profiles) {
  std::vector<std::uint8_t> jumps;
  for (const auto& profile : profiles) {
    jumps.resize(std::max(jumps.size(), profile.size()), 0);
    for (std::size_t j = 1; j < profile.size(); ++j) {
      if (is_wholly_lost(profile[j]) != is_wholly_lost(profile[j - 1])) jumps[j] = 1;
    }
  }
  std::vector<std::int64_t> positions;
  for (std::size_t j = 0; j < jumps.size(); ++j) {
    if (jumps[j] != 0) positions.push_back(static_cast<std::int64_t>(j));
  }
  return positions;
}

JumpGrid jump_grid(std::span<const std::int64_t> jumps) {
  JumpGrid grid;
  grid.edges = static_cast<std::int64_t>(jumps.size());
  if (grid.edges < 2) return grid;
  for (std::size_t i = 1; i < jumps.size(); ++i) grid.period = std::gcd(grid.period, jumps[i] - jumps[0]);
  grid.boundary = jumps[0] % grid.period;
  grid.chance = grid.period < 2 ? 1.0 : chance_of_any_grid(grid.period, grid.edges - 1);
  return grid;
}

std::vector<double> squared_jumps(const std::vector<std::vector<double>>& profiles) {
  std::vector<double> result;
  for (const auto& profile : profiles) {
    result.resize(std::max(result.size(), profile.size()), 0.0);
    for (std::size_t j = 1; j < profile.size(); ++j) {
      const double step = profile[j] - profile[j - 1];
      result[j] += step * step;
    }
  }
  return result;
}

EdgeIndex edge_index(std::span<const double> squared_jumps, std::int64_t period) {
  EdgeIndex result;
  result.period = period;
  std::vector<double> folded(static_cast<std::size_t>(period), 0.0);
  double sum = 0;
  double squares = 0;
  std::size_t phase = 0;
  for (const double jump : squared_jumps) {
    folded[phase] += jump;
    sum += jump;
    squares += jump * jump;
    if (++phase == folded.size()) phase = 0;
  }
  if (!(sum > 0)) return result;
  double real = 0;
  double imaginary = 0;
  for (std::size_t j = 0; j < folded.size(); ++j) {
    if (folded[j] == 0) continue;
    const double angle = 2 * std::numbers::pi * static_cast<double>(j) / static_cast<double>(period);
    real += folded[j] * std::cos(angle);
    imaginary += folded[j] * std::sin(angle);
  }
  result.index = std::min(1.0, std::hypot(real, imaginary) / sum);
  const double turns = std::atan2(imaginary, real) / (2 * std::numbers::pi);
  result.boundary = (turns < -1e-12 ? turns + 1 : std::max(0.0, turns)) * static_cast<double>(period);
  const auto boundary = static_cast<std::int64_t>(std::llround(result.boundary));
  const std::int64_t reach = period > 3 ? 1 : 0;
  for (std::int64_t step = -reach; step <= reach; ++step) {
    result.share += folded[static_cast<std::size_t>((boundary + step + period) % period)] / sum;
  }
  result.effective = sum * sum / squares;
  result.p = std::exp(-result.effective * result.index * result.index);
  return result;
}

EdgeIndex search_edge_index(std::span<const double> squared_jumps, std::int64_t max_period) {
  std::vector<EdgeIndex> tried;
  double best = 0;
  for (std::int64_t period = 2; period <= max_period; ++period) {
    tried.push_back(edge_index(squared_jumps, period));
    best = std::max(best, tried.back().index);
  }
  if (best <= 0) return {};
  const auto largest =
      std::find_if(tried.rbegin(), tried.rend(), [&](const EdgeIndex& e) { return e.index >= 0.95 * best; });
  EdgeIndex result = *largest;
  result.p = correct_for_search(result.p, static_cast<double>(tried.size()));
  return result;
}

bool is_mask_like(const std::vector<std::vector<double>>& profiles) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const auto& profile : profiles) {
    for (const double value : profile) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  if (!(high > low)) return false;
  std::int64_t near_low = 0;
  std::int64_t near_high = 0;
  std::int64_t all = 0;
  for (const auto& profile : profiles) {
    for (const double value : profile) {
      near_low += value <= low + 0.1 * (high - low) ? 1 : 0;
      near_high += value >= high - 0.1 * (high - low) ? 1 : 0;
      ++all;
    }
  }
  return 10 * (near_low + near_high) >= 9 * all && 100 * near_low >= all && 100 * near_high >= all;
}

}  // namespace kvtide::loss

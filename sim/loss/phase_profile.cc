#include "loss/phase_profile.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace kvtide::loss {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <class BinOfPhase>
PhaseProfile fold(std::span<const double> loss, std::int64_t period, std::int64_t grid_offset, std::int64_t bins,
                  std::span<const std::uint8_t> is_masked, BinOfPhase bin_of_phase) {
  KVTIDE_ASSERT(period >= 1 && bins >= 1 && bins <= period, "a fold needs 1 <= bins <= period");
  KVTIDE_ASSERT(is_masked.empty() || is_masked.size() == loss.size(), "one mask flag a position");
  PhaseProfile profile{std::vector<double>(static_cast<std::size_t>(bins), 0.0),
                       std::vector<std::int64_t>(static_cast<std::size_t>(bins), 0)};
  const std::int64_t start = ((grid_offset % period) + period) % period;
  for (std::size_t j = 0; j < loss.size(); ++j) {
    if (!is_masked.empty() && is_masked[j] != 0) continue;
    const std::size_t bin = bin_of_phase((static_cast<std::int64_t>(j) + start) % period);
    profile.mean[bin] += loss[j];
    ++profile.count[bin];
  }
  for (std::size_t bin = 0; bin < profile.mean.size(); ++bin) {
    profile.mean[bin] = profile.count[bin] > 0 ? profile.mean[bin] / static_cast<double>(profile.count[bin]) : kNaN;
  }
  return profile;
}

}  // namespace

PhaseProfile fold_by_phase(std::span<const double> loss, std::int64_t period, std::int64_t grid_offset,
                           std::int64_t bins, std::span<const std::uint8_t> is_masked) {
  return fold(loss, period, grid_offset, bins, is_masked,
              [=](std::int64_t phase) { return static_cast<std::size_t>(phase * bins / period); });
}

PhaseProfile fold_by_edge_distance(std::span<const double> loss, std::int64_t period, std::int64_t grid_offset,
                                   std::span<const std::uint8_t> is_masked) {
  return fold(loss, period, grid_offset, (period + 1) / 2, is_masked,
              [=](std::int64_t phase) { return static_cast<std::size_t>(std::min(phase, period - 1 - phase)); });
}

double worst_phase_over_mean(const PhaseProfile& profile) {
  double worst = 0;
  double sum = 0;
  std::int64_t count = 0;
  for (std::size_t bin = 0; bin < profile.mean.size(); ++bin) {
    if (profile.count[bin] == 0) continue;
    worst = std::max(worst, profile.mean[bin]);
    sum += profile.mean[bin] * static_cast<double>(profile.count[bin]);
    count += profile.count[bin];
  }
  return sum > 0 ? worst / (sum / static_cast<double>(count)) : kNaN;
}

}  // namespace kvtide::loss

#include "loss/phase_profile.h"

#include <limits>

#include "base/error.h"

namespace kvtide::loss {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

PhaseProfile fold_by_phase(std::span<const double> loss, std::int64_t period, std::int64_t grid_offset,
                           std::int64_t bins, std::span<const std::uint8_t> is_masked) {
  KVTIDE_ASSERT(period >= 1 && bins >= 1 && bins <= period, "a fold needs 1 <= bins <= period");
  KVTIDE_ASSERT(is_masked.empty() || is_masked.size() == loss.size(), "one mask flag a position");
  PhaseProfile profile{std::vector<double>(static_cast<std::size_t>(bins), 0.0),
                       std::vector<std::int64_t>(static_cast<std::size_t>(bins), 0)};
  const std::int64_t start = ((grid_offset % period) + period) % period;
  for (std::size_t j = 0; j < loss.size(); ++j) {
    if (!is_masked.empty() && is_masked[j] != 0) continue;
    const auto bin = static_cast<std::size_t>((static_cast<std::int64_t>(j) + start) % period * bins / period);
    profile.mean[bin] += loss[j];
    ++profile.count[bin];
  }
  for (std::size_t bin = 0; bin < profile.mean.size(); ++bin) {
    profile.mean[bin] = profile.count[bin] > 0 ? profile.mean[bin] / static_cast<double>(profile.count[bin]) : kNaN;
  }
  return profile;
}

}  // namespace kvtide::loss

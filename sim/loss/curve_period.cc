#include "loss/curve_period.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

std::vector<std::int64_t> sampled_shifts(std::int64_t max_shift, std::int64_t repeats_after, std::int64_t dense) {
  constexpr std::int64_t kSamples = 64;  // over max_shift
  constexpr std::int64_t kOffsets = 4;
  const std::int64_t span = std::min(repeats_after, max_shift + 1);
  const std::int64_t count =
      std::clamp<std::int64_t>(kSamples * span / std::max<std::int64_t>(max_shift, 1), 16, kSamples);
  const std::int64_t step = span <= count * 3 / 2 ? 1 : std::max(kOffsets, span / count);
  std::vector<std::int64_t> residues;
  for (std::int64_t shift = 0; shift <= std::min(dense, span - 1); ++shift) residues.push_back(shift);
  for (std::int64_t index = 0; index * step < span; ++index) {
    const std::int64_t shift = index * step + (step == 1 ? 0 : index % kOffsets);
    if (shift > residues.back() && shift < span) residues.push_back(shift);
  }
  std::vector<std::int64_t> shifts;
  for (std::int64_t begin = 0; begin <= max_shift; begin += repeats_after) {
    for (const std::int64_t residue : residues) {
      if (begin + residue <= max_shift) shifts.push_back(begin + residue);
    }
  }
  return shifts;
}

std::int64_t find_residue_period(std::span<const std::int64_t> shift, std::span<const double> curve,
                                 std::int64_t repeats_after) {
  constexpr std::int64_t kFewest = 4;
  if (curve.empty() || 2 * repeats_after > shift.back()) return 0;
  const auto [low, high] = std::ranges::minmax(curve);
  const double tolerance = 1e-9 * (high - low);
  if (!(high - low > 1e-12)) return 0;
  for (std::int64_t period = 2; period < repeats_after; ++period) {
    if (repeats_after % period != 0) continue;
    std::vector<double> of_residue(static_cast<std::size_t>(period), std::numeric_limits<double>::quiet_NaN());
    std::int64_t agreeing = 0;
    bool agrees = true;
    for (std::size_t i = 0; i < curve.size() && shift[i] < repeats_after && agrees; ++i) {
      double& known = of_residue[static_cast<std::size_t>(shift[i] % period)];
      if (std::isnan(known)) {
        known = curve[i];
      } else {
        agrees = std::abs(curve[i] - known) <= tolerance;
        ++agreeing;
      }
    }
    if (agrees && agreeing >= kFewest) return period;
  }
  return repeats_after;
}

}  // namespace kvtide::loss

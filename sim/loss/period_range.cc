#include "loss/period_range.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>

namespace kvtide::loss {

double phase_roughness(const ScanSeries& series, std::span<const double> value, double period) {
  // In billionths of a cycle: places of one phase stand in the order of their cycles, whatever was rounded.
  constexpr double kGrains = 1e9;
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  order.reserve(series.at.size());
  for (std::size_t i = 0; i < series.at.size(); ++i) {
    const double turns = (series.at[i] - series.at.front()) / period;
    const auto phase = std::llround((turns - std::floor(turns)) * kGrains);
    order.emplace_back(phase % static_cast<std::int64_t>(kGrains), i);
  }
  std::sort(order.begin(), order.end());
  double sum = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double step = value[order[i].second] - value[order[(i + 1) % order.size()].second];
    sum += step * step;
  }
  return sum;
}

PeriodRange period_range(const ScanSeries& series, std::span<const double> value, double near, double grain) {
  const double reach = std::min(near / 4, std::max(series.step(), near * near / (4 * series.extent())));
  const double begin = grain * std::ceil((near - reach) / grain);
  std::vector<std::pair<double, double>> tried{{near, phase_roughness(series, value, near)}};
  const double end = std::max(near, std::min(near + reach, series.extent() / 2));
  for (double period = begin; period <= end; period += grain) {
    tried.emplace_back(period, phase_roughness(series, value, period));
  }
  double best = tried.front().second;
  for (const auto& [period, roughness] : tried) best = std::min(best, roughness);
  // In noise alone the sum of n squared differences has a relative standard deviation of about sqrt(2 / n).
  const double alike = best * (1 + 2 * std::sqrt(2 / static_cast<double>(value.size()))) + 1e-9;
  PeriodRange range{near, near, near};
  bool is_first = true;
  for (const auto& [period, roughness] : tried) {
    if (roughness > alike) continue;
    range.low = is_first ? period : std::min(range.low, period);
    range.high = is_first ? period : std::max(range.high, period);
    is_first = false;
  }
  const double power = std::exp2(std::floor(std::log2(range.high)));
  range.period = power >= range.low ? power : grain * std::round((range.low + range.high) / 2 / grain);
  return range;
}

}  // namespace kvtide::loss

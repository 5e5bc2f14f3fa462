#include "loss/danger_zone.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvtide::loss {
namespace {

constexpr double kMostBins = 64;

/// Dangerous bins, empty ones decided by the nearest measured bins on both sides.
std::vector<bool> dangerous_bins(const std::vector<double>& success) {
  const std::size_t n = success.size();
  std::vector<bool> result(n, false);
  const auto measured = [&](std::size_t from, std::size_t step) {
    for (std::size_t i = 0; i < n; ++i, from = (from + step) % n) {
      if (!std::isnan(success[from])) return success[from] < kFails;
    }
    return false;
  };
  for (std::size_t bin = 0; bin < n; ++bin) {
    result[bin] = std::isnan(success[bin]) ? measured(bin, 1) && measured(bin, n - 1) : success[bin] < kFails;
  }
  return result;
}

/// Maximal circular runs of flagged bins, in units of bins; [0, n) when all are.
std::vector<Interval> circular_runs(const std::vector<bool>& flags) {
  const std::size_t n = flags.size();
  std::vector<Interval> runs;
  if (std::find(flags.begin(), flags.end(), false) == flags.end()) {
    runs.push_back({0, static_cast<double>(n)});
    return runs;
  }
  for (std::size_t bin = 0; bin < n; ++bin) {
    if (!flags[bin] || flags[(bin + n - 1) % n]) continue;
    std::size_t end = bin;
    while (flags[end % n]) ++end;
    runs.push_back({static_cast<double>(bin), static_cast<double>(end)});
  }
  return runs;
}

/// @param step  of the scan
std::vector<Interval> to_avoid(const OutsideScan& scan, const DangerZone& zone, double step) {
  const double period = zone.period;
  const auto modulo = [&](double value) { return value - period * std::floor(value / period); };
  std::vector<Interval> result;
  for (const Interval& interval : zone.intervals) {
    const double beside = std::min(zone.bin_width, (period - interval.length()) / 2);
    const double from = interval.begin - beside;
    double begin = interval.begin;
    double end = interval.end;
    for (const ScanPoint& point : scan.points) {
      if (point.success >= kFails) continue;
      const double offset = modulo(point.at - from + 1e-9);
      if (offset >= interval.length() + 2 * beside) continue;
      begin = std::min(begin, from + offset);
      end = std::max(end, from + offset + step);
    }
    begin = std::floor(begin + 1e-6);
    end = std::ceil(end - 1e-6);
    if (end - begin >= period) return {{0, period}};
    const double turn = begin < 0 ? period : 0;
    result.push_back({begin + turn, end + turn});
  }
  std::sort(result.begin(), result.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> apart;
  for (const Interval& interval : result) {
    if (apart.empty() || interval.begin > apart.back().end) {
      apart.push_back(interval);
    } else {
      apart.back().end = std::max(apart.back().end, interval.end);
    }
  }
  // The last one may reach round into the first ones.
  while (apart.size() > 1 && apart.back().end - period >= apart.front().begin) {
    apart.back().end = std::max(apart.back().end, apart.front().end + period);
    apart.erase(apart.begin());
  }
  if (!apart.empty() && apart.back().length() >= period) return {{0, period}};
  return apart;
}

}  // namespace

std::vector<Interval> within_one_turn(const Interval& interval, double period) {
  if (interval.end <= period + 1e-9) return {interval};
  return {{interval.begin, period}, {0, interval.end - period}};
}

Interval DangerZone::longest_safe() const {
  if (avoid.empty()) return {0, period};
  Interval longest;
  for (std::size_t i = 0; i < avoid.size(); ++i) {
    const double next = i + 1 < avoid.size() ? avoid[i + 1].begin : avoid.front().begin + period;
    if (next - avoid[i].end > longest.length()) longest = {avoid[i].end, next};
  }
  if (longest.begin < period) return longest;
  return {longest.begin - period, longest.end - period};
}

DangerZone danger_by_phase(const OutsideScan& scan, double period) {
  DangerZone zone;
  zone.period = period;
  const double step = std::max(scan.losses().step(), period / kMostBins);
  const auto bins = static_cast<std::size_t>(std::max(1.0, std::floor(period / step + 1e-9)));
  zone.bin_width = period / static_cast<double>(bins);
  std::vector<double> count(bins, 0.0);
  zone.mean_success.assign(bins, 0.0);
  zone.mean_loss.assign(bins, 0.0);
  for (const ScanPoint& point : scan.points) {
    const double residue = point.at - period * std::floor(point.at / period);
    const auto bin = std::min(bins - 1, static_cast<std::size_t>(residue / zone.bin_width + 1e-9));
    zone.mean_success[bin] += point.success;
    zone.mean_loss[bin] += point.loss;
    count[bin] += 1;
  }
  zone.worst_loss = -std::numeric_limits<double>::infinity();
  for (std::size_t bin = 0; bin < bins; ++bin) {
    if (count[bin] == 0) {
      zone.mean_success[bin] = zone.mean_loss[bin] = std::numeric_limits<double>::quiet_NaN();
      continue;
    }
    zone.mean_success[bin] /= count[bin];
    zone.mean_loss[bin] /= count[bin];
    zone.worst_success = std::min(zone.worst_success, zone.mean_success[bin]);
    zone.worst_loss = std::max(zone.worst_loss, zone.mean_loss[bin]);
  }
  const std::vector<bool> dangerous = dangerous_bins(zone.mean_success);
  if (std::find(dangerous.begin(), dangerous.end(), true) == dangerous.end()) return zone;
  for (const Interval& run : circular_runs(dangerous)) {
    zone.intervals.push_back({run.begin * zone.bin_width, run.end * zone.bin_width});
    zone.share += run.length() / static_cast<double>(bins);
  }
  zone.avoid = to_avoid(scan, zone, scan.losses().step());
  return zone;
}

std::vector<FailingRun> failing_runs(const OutsideScan& scan) {
  std::vector<FailingRun> runs;
  bool is_open = false;
  for (const ScanPoint& point : scan.points) {
    if (point.success >= kFails) {
      is_open = false;
      continue;
    }
    if (!is_open) runs.push_back({point.at, point.at});
    runs.back().last = point.at;
    is_open = true;
  }
  return runs;
}

}  // namespace kvtide::loss

#include "loss/scan_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/random.h"

namespace kvtide::loss {
namespace {

constexpr std::int64_t kFlips = 9999;
constexpr double kSure = 0.01;

/// Share of random sign flips whose sum is as far from 0 as the sum of `differences`.
double sign_flip_p(const std::vector<double>& differences, std::uint64_t seed) {
  double observed = 0;
  double scale = 0;
  for (const double d : differences) {
    observed += d;
    scale += std::abs(d);
  }
  if (!(scale > 0)) return 1;
  RandomStream random(seed, "loss.scan_comparison");
  std::int64_t as_far = 1;
  for (std::int64_t i = 0; i < kFlips; ++i) {
    double sum = 0;
    std::uint64_t bits = 0;
    for (std::size_t j = 0; j < differences.size(); ++j) {
      if (j % 64 == 0) bits = random.next();
      sum += (bits >> (j % 64) & 1) != 0 ? differences[j] : -differences[j];
    }
    as_far += std::abs(sum) >= std::abs(observed) - 1e-9 * scale ? 1 : 0;
  }
  return static_cast<double>(as_far) / static_cast<double>(kFlips + 1);
}

/// Two-sided sign test: how often does a fair coin split n tosses at least as unevenly?
double sign_test_p(std::int64_t a, std::int64_t b) {
  const std::int64_t n = a + b;
  double tail = 0;
  double log_choose = 0;  // ln of n over k
  for (std::int64_t k = 0; k <= std::min(a, b); ++k) {
    tail += std::exp(log_choose - static_cast<double>(n) * std::log(2.0));
    log_choose += std::log(static_cast<double>(n - k)) - std::log(static_cast<double>(k + 1));
  }
  return std::min(1.0, 2 * tail);
}

bool same_period(const PeriodFinding& a, const PeriodFinding& b) {
  return std::abs(a.search.period - b.search.period) <= a.search.resolution + b.search.resolution;
}

/// Is `period`, which the other scan has, absent here?
PeriodChange absent_period(const OutsideScan& scan, double period, std::uint64_t seed, PeriodChange if_absent) {
  const PeriodFinding asked = find_scan_period(scan.losses(), unit_of(scan.axis), seed, period);
  const bool is_constant = std::all_of(scan.points.begin(), scan.points.end(),
                                       [&](const ScanPoint& point) { return point.loss == scan.points.front().loss; });
  const bool is_long_enough = scan.points.size() >= kMinScanPoints && scan.losses().extent() >= 2 * period &&
                              period >= 2 * scan.losses().step();
  if (is_constant && is_long_enough) return if_absent;
  const bool is_asked = !std::isnan(asked.search.period);
  return is_asked && asked.verdict == ScanVerdict::none ? if_absent : PeriodChange::unclear;
}

}  // namespace

std::string_view to_string(PeriodChange change) {
  constexpr std::array<std::string_view, 6> kNames{"none", "same", "cured", "appeared", "moved", "unclear"};
  return kNames[static_cast<std::size_t>(change)];
}

std::string_view to_string(ScanChange change) {
  constexpr std::array<std::string_view, 4> kNames{"same", "better", "worse", "period_changed"};
  return kNames[static_cast<std::size_t>(change)];
}

ScanComparison compare_scans(const OutsideScan& before, const ScanDiagnosis& before_diagnosis, const OutsideScan& after,
                             const ScanDiagnosis& after_diagnosis, std::uint64_t seed) {
  if (before.axis != after.axis || before.measure != after.measure) {
    throw InputError(fmt::format("{} has {} and {}, {} has {} and {}: only like can be compared with like",
                                 before.origin, to_string(before.axis), to_string(before.measure), after.origin,
                                 to_string(after.axis), to_string(after.measure)));
  }
  ScanComparison result;
  result.worst_loss_change = -std::numeric_limits<double>::infinity();
  std::vector<double> differences;
  auto late = after.points.begin();
  for (const ScanPoint& early : before.points) {
    while (late != after.points.end() && late->at < early.at) ++late;
    if (late == after.points.end()) break;
    if (late->at != early.at) continue;
    differences.push_back(late->loss - early.loss);
    if (differences.back() > result.worst_loss_change) {
      result.worst_loss_change = differences.back();
      result.worst_change_at = early.at;
    }
    result.newly_failing += early.success >= kFails && late->success < kFails ? 1 : 0;
    result.newly_right += early.success < kFails && late->success >= kFails ? 1 : 0;
  }
  result.common_places = static_cast<std::int64_t>(differences.size());
  if (result.common_places < kMinCommonPlaces) {
    throw InputError(fmt::format("{} and {} have {} places in common, {} are needed", before.origin, after.origin,
                                 result.common_places, kMinCommonPlaces));
  }
  for (const double d : differences) result.mean_loss_change += d / static_cast<double>(result.common_places);
  result.stability_change = after_diagnosis.cost.stability - before_diagnosis.cost.stability;
  result.p = sign_flip_p(differences, seed);
  result.flips = kFlips;
  const PeriodFinding& old_period = before_diagnosis.period;
  const PeriodFinding& new_period = after_diagnosis.period;
  if (old_period.is_found() && new_period.is_found()) {
    result.period = same_period(old_period, new_period) ? PeriodChange::same : PeriodChange::moved;
  } else if (old_period.is_found()) {
    result.period = absent_period(after, old_period.search.period, seed, PeriodChange::cured);
  } else if (new_period.is_found()) {
    result.period = absent_period(before, new_period.search.period, seed, PeriodChange::appeared);
  }
  const bool flips_tell = sign_test_p(result.newly_failing, result.newly_right) <= kSure;
  const bool is_sure = result.p <= kSure || flips_tell;
  const double direction =
      result.p <= kSure ? result.mean_loss_change : static_cast<double>(result.newly_failing - result.newly_right);
  if (is_sure && direction > 0) {
    result.verdict = ScanChange::worse;
  } else if (is_sure && direction < 0) {
    result.verdict = ScanChange::better;
  } else if (result.period == PeriodChange::cured || result.period == PeriodChange::appeared ||
             result.period == PeriodChange::moved) {
    result.verdict = ScanChange::period_changed;
  }
  return result;
}

}  // namespace kvtide::loss

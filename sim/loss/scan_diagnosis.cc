#include "loss/scan_diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "loss/periodicity.h"
#include "loss/span_statistics.h"

namespace kvtide::loss {
namespace {

constexpr double kProvenCycles = 6;
constexpr double kProvenP = 0.005;
constexpr double kProvenIndex = 0.05;
constexpr double kProvenRatio = 5;
constexpr double kLikelyP = 0.01;
constexpr double kSuspectedP = 0.05;
/// A period of which a cycle has fewer points shows where it fails only coarsely.
constexpr double kGoodPointsPerCycle = 16;
/// What a first look should cover where nothing else is known: three cycles of a block of 128.
constexpr double kUsualBlock = 128;
constexpr double kFirstLookCycles = 3;

bool is_evenly_spaced(const ScanSeries& series) {
  const double step = series.step();
  for (std::size_t i = 1; i < series.at.size(); ++i) {
    if (std::abs(series.at[i] - series.at[i - 1] - step) > 1e-6 * step) return false;
  }
  return true;
}

/// What a dense, even scan says by the rules for unbroken profiles; false: nothing.
bool ask_dense_rules(const ScanSeries& series, std::uint64_t seed, PeriodFinding& finding) {
  if (series.at.size() <= kMaxScanPoints || !is_evenly_spaced(series)) return false;
  PeriodQuestion question;
  question.loss = series.value;
  question.seed = seed;
  const PeriodVerdict verdict = find_period(question);
  if (verdict.kind != PeriodKind::level && verdict.kind != PeriodKind::grid_locked) return false;
  finding.verdict = ScanVerdict::level;
  finding.search.period = verdict.period * series.step();
  finding.search.cycles = verdict.cycles;
  finding.search.resolution = series.step() / 2 / (verdict.cycles - 1);  // six cycles or more
  finding.search.p = verdict.chance;
  finding.ratio = verdict.periodicity_ratio;
  finding.certainty = verdict.certainty;
  return true;
}

void set_further_points(const ScanSeries& series, PeriodFinding& finding) {
  const double step = series.step();
  const ScanPeriod& search = finding.search;
  if (std::isnan(search.period) || finding.verdict == ScanVerdict::none) {
    const double wanted = kFirstLookCycles * kUsualBlock;
    if (finding.verdict == ScanVerdict::none && series.at.size() >= kMinScanPoints && series.extent() >= wanted) return;
    finding.further_step = std::clamp(step, 1.0, kUsualBlock / kGoodPointsPerCycle);
    const double missing =
        std::max(wanted - series.extent(), static_cast<double>(kMinScanPoints) * finding.further_step -
                                               static_cast<double>(series.at.size()) * step);
    finding.further_points = static_cast<std::int64_t>(std::ceil(std::max(1.0, missing / finding.further_step)));
    return;
  }
  if (finding.verdict == ScanVerdict::level) return;
  finding.further_step = std::max(1.0, std::floor(std::min(step, search.period / kGoodPointsPerCycle) + 1e-9));
  // Six cycles in all, or one more where six were not enough.
  const double cycles = search.cycles < kProvenCycles ? kProvenCycles - search.cycles : 1;
  finding.further_points = static_cast<std::int64_t>(std::ceil(cycles * search.period / finding.further_step - 1e-9));
}

ScanCost cost_of(const OutsideScan& scan) {
  ScanCost cost;
  std::vector<double> success;
  std::vector<double> loss;
  cost.worst_success = 1;
  cost.worst_loss = -std::numeric_limits<double>::infinity();
  const auto n = static_cast<double>(scan.points.size());
  bool failed_before = false;
  for (const ScanPoint& point : scan.points) {
    const bool fails = point.success < kFails;
    if (!success.empty() && fails != failed_before) ++cost.flips;
    failed_before = fails;
    success.push_back(point.success);
    loss.push_back(point.loss);
    cost.mean_success += point.success / n;
    cost.mean_loss += point.loss / n;
    cost.failing_share += fails ? 1 / n : 0;
    cost.worst_success = std::min(cost.worst_success, point.success);
    if (point.loss > cost.worst_loss) {
      cost.worst_loss = point.loss;
      cost.worst_at = point.at;
    }
  }
  cost.cvar05 = conditional_value_at_risk(std::move(loss), 0.05);
  // The correction for repeats is that of yes-or-no answers.
  const bool is_yes_or_no = scan.measure == ScanMeasure::correct;
  cost.stability = position_stability(success, is_yes_or_no ? scan.repeats : 1);
  // With single tries every scan that fails somewhere has index 0, a fair coin as well as a dead block.
  if (is_yes_or_no && scan.repeats < 2 && cost.failing_share > 0 && cost.failing_share < 1 - 1e-9) {
    cost.stability = kNotMeasured;
  }
  return cost;
}

ControlCheck control_of(const OutsideScan& scan) {
  ControlCheck check;
  double sum = 0;
  for (const ScanPoint& point : scan.points) {
    if (std::isnan(point.control)) continue;
    ++check.places;
    sum += point.control;
  }
  if (check.places == 0) return check;
  check.mean_success = sum / static_cast<double>(check.places);
  check.is_valid = check.mean_success <= kControlAtChance;
  return check;
}

SpectralLine wave_of(const ScanSeries& series, bool is_even) {
  if (!is_even) return search_lomb_scargle(series.at, series.value, 2 * series.step());
  SpectralLine wave = search_periodogram(prewhitened(series.value));
  wave.period *= series.step();
  return wave;
}

void set_latency(const OutsideScan& scan, std::uint64_t seed, ScanDiagnosis& diagnosis) {
  const ScanSeries series = scan.latencies();
  if (series.at.empty()) return;
  std::vector<double> sorted = series.value;
  std::sort(sorted.begin(), sorted.end());
  diagnosis.latency_typical_ms = sorted[sorted.size() / 2];
  diagnosis.latency_worst_ms = sorted.back();
  diagnosis.latency = find_scan_period(series, unit_of(scan.axis), seed);
}

}  // namespace

std::string_view to_string(ScanVerdict verdict) {
  constexpr std::array<std::string_view, 4> kNames{"none", "suspected", "likely", "level"};
  return kNames[static_cast<std::size_t>(verdict)];
}

double smallest_visible_dip(const ScanSeries& series) {
  constexpr double kBins = 8;
  constexpr double kErrors = 7;
  const auto k = static_cast<double>(series.value.size());
  double mean = 0;
  double variance = 0;
  for (const double value : series.value) mean += value / k;
  for (const double value : series.value) variance += (value - mean) * (value - mean) / k;
  return kErrors * std::sqrt(variance * kBins / k);
}

namespace {

/// What a scan without a finding could not have shown; empty where that is not to be told.
std::string unseen_text(const ScanSeries& series, const PeriodFinding& finding, std::string_view unit) {
  const auto [low, high] = std::minmax_element(series.value.begin(), series.value.end());
  std::string text;
  if (finding.smallest_dip >= *high - *low) {
    text = "; places are too few or too noisy to show any dip of an eighth of a period";
  } else if (finding.smallest_dip > 0) {
    text = fmt::format("; dips of an eighth of a period may go unseen up to a depth of about {:.2g}",
                       finding.smallest_dip);
  }
  // Blocks are rarely smaller than 16.
  constexpr double kSmallestBlock = 16;
  const double step = series.step();
  if (is_evenly_spaced(series) && step >= kSmallestBlock && step == std::floor(step)) {
    text += fmt::format(
        "; periods that divide the step of {:g} {} cannot be seen, since all places have one phase: scan at {:g}", step,
        unit, finding.further_points > 0 ? finding.further_step : kSmallestBlock / 4 + 1);
  }
  return text;
}

}  // namespace

PeriodFinding find_scan_period(const ScanSeries& series, std::string_view unit, std::uint64_t seed,
                               double known_period) {
  PeriodFinding finding;
  if (known_period <= 0 && ask_dense_rules(series, seed, finding)) return finding;
  finding.search = search_scan_period(series, seed, known_period);
  const ScanPeriod& search = finding.search;
  const auto n = static_cast<double>(series.at.size());
  if (std::isnan(search.period)) {
    set_further_points(series, finding);
    finding.certainty = series.at.size() < kMinScanPoints
                            ? fmt::format("not enough data: {} places, {} are needed", series.at.size(), kMinScanPoints)
                            : "no period: nothing varies, or the scan is shorter than two cycles of four points";
    return finding;
  }
  finding.ratio = phase_share_ratio(series, search.period);
  const double bins = std::min(8.0, std::max(2.0, search.period / series.step()));
  const double index = 1 - (1 - search.phase_share) * (n - 1) / std::max(1.0, n - bins);
  if (search.p <= kProvenP && search.cycles >= kProvenCycles && index >= kProvenIndex &&
      finding.ratio >= kProvenRatio) {
    finding.verdict = ScanVerdict::level;
  } else if (search.p <= kLikelyP) {
    finding.verdict = ScanVerdict::likely;
  } else if (search.p <= kSuspectedP) {
    finding.verdict = ScanVerdict::suspected;
  }
  set_further_points(series, finding);
  const std::string more = fmt::format("{} more points at step {:g}", finding.further_points, finding.further_step);
  const std::string seen =
      fmt::format("{:.1f} cycles of {:g} {} (p {:.3f} after the search, resolution {:.3f})", search.cycles,
                  search.period, unit, search.p, 1.0 / static_cast<double>(search.surrogates + 1));
  switch (finding.verdict) {
    case ScanVerdict::level:
      finding.certainty = fmt::format("{}, {:.1f} times sharper than neighbouring periods", seen, finding.ratio);
      break;
    case ScanVerdict::likely:
      finding.certainty = fmt::format("{}; {} could prove it", seen, more);
      break;
    case ScanVerdict::suspected:
      finding.certainty = fmt::format("not enough data: {}; scan {}", seen, more);
      break;
    case ScanVerdict::none:
      finding.certainty = fmt::format(
          "no period between {:g} and {:g} {} (best p {:.2f}){}", search.shortest_searched, search.longest_searched,
          unit, search.p, finding.further_points > 0 ? "; not enough data for longer ones: scan " + more : "");
      finding.smallest_dip = smallest_visible_dip(series);
      finding.certainty += unseen_text(series, finding, unit);
      break;
  }
  return finding;
}

ScanDiagnosis diagnose(const OutsideScan& scan, const DiagnosisSettings& settings) {
  ScanDiagnosis result;
  result.cost = cost_of(scan);
  result.control = control_of(scan);
  result.failing = failing_runs(scan);
  result.noise = place_noise(scan);
  const ScanSeries losses = scan.losses();
  result.period = find_scan_period(losses, unit_of(scan.axis), settings.seed, settings.known_block_size);
  result.is_even = is_evenly_spaced(losses);
  result.wave = wave_of(losses, result.is_even);
  if (scan.axis == ScanAxis::position && !result.period.is_found()) {
    result.block_dependence = find_block_dependence(scan, settings.seed);
  }
  set_latency(scan, settings.seed, result);
  result.cost.worst_phase_over_mean = kNotMeasured;
  if (!result.period.is_found()) return result;
  const double period = result.period.search.period;
  result.danger = danger_by_phase(scan, period);
  std::vector<double> failing;
  for (const ScanPoint& point : scan.points) {
    if (point.success < kFails) failing.push_back(point.at);
  }
  result.failures = event_phase(failing, period);
  if (result.cost.mean_loss > 0) result.cost.worst_phase_over_mean = result.danger.worst_loss / result.cost.mean_loss;
  const double tokens = period * scan.tokens_per_unit();
  constexpr double kSmallestBlock = 16;
  if (!std::isnan(tokens)) {
    // Blocks are mostly multiples of 16: one that the scan cannot tell from the period found comes first.
    const double usual = kSmallestBlock * std::round(tokens / kSmallestBlock);
    const double reach = 2 * result.period.search.resolution * scan.tokens_per_unit();
    auto size = static_cast<std::int64_t>(std::llround(std::abs(usual - tokens) <= reach ? usual : tokens));
    result.period.block_sizes.push_back(size);
    while (size % 2 == 0 && static_cast<double>(size) >= 2 * kSmallestBlock)
      result.period.block_sizes.push_back(size /= 2);
  }
  return result;
}

}  // namespace kvtide::loss

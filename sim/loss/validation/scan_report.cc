#include "loss/validation/scan_report.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"

namespace kvtide::loss {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// [value] rank from 1; equal values share the mean of theirs.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t index) { return values[index]; });
  std::vector<double> result(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (std::size_t at = begin; at < end; ++at) result[order[at]] = 0.5 * static_cast<double>(begin + end + 1);
    begin = end;
  }
  return result;
}

double capped(double loss) {
  return std::min(loss, kChanceLoss);
}

FailingPhases phases_of(const std::vector<const PredictedRow*>& rows) {
  std::set<std::int64_t> measured;
  std::set<std::int64_t> predicted;
  for (const PredictedRow* row : rows) {
    const std::int64_t phase = row->measured.prompt % row->measured.setting.block;
    if (row->measured.is_failing) measured.insert(phase);
    if (row->predicted.weakest_margin < kFailingMargin) predicted.insert(phase);
  }
  FailingPhases phases;
  std::ranges::set_intersection(measured, predicted, std::back_inserter(phases.both));
  std::ranges::set_difference(measured, predicted, std::back_inserter(phases.only_measured));
  std::ranges::set_difference(predicted, measured, std::back_inserter(phases.only_predicted));
  return phases;
}

ConfigurationReport report_configuration(const std::vector<const PredictedRow*>& rows) {
  ConfigurationReport report;
  report.setting = rows.front()->measured.setting;
  report.worst_measured = report.worst_predicted = -std::numeric_limits<double>::infinity();
  std::vector<double> scores;
  std::vector<bool> failing;
  std::vector<double> predicted;
  std::vector<double> measured;
  for (const PredictedRow* row : rows) {
    const double loss = capped(row->measured.loss);
    scores.push_back(-row->predicted.weakest_margin);
    failing.push_back(row->measured.is_failing);
    if (row->measured.is_failing) ++report.failing;
    report.mean_measured += loss;
    report.mean_predicted += capped(row->predicted.loss);
    report.worst_measured = std::max(report.worst_measured, loss);
    report.worst_predicted = std::max(report.worst_predicted, capped(row->predicted.loss));
    if (row->measured.loss <= kNoticeableLoss) continue;
    if (row->measured.loss < kChanceLoss) ++report.between;
    measured.push_back(loss);
    predicted.push_back(row->predicted.loss);
  }
  if (report.setting.scan == "prefix" && report.setting.block > 0) report.phases = phases_of(rows);
  report.rows = static_cast<std::int64_t>(rows.size());
  report.mean_measured /= static_cast<double>(rows.size());
  report.mean_predicted /= static_cast<double>(rows.size());
  report.auc = area_under_curve(scores, failing);
  report.rho = rank_correlation(predicted, measured);
  return report;
}

SnowballReport report_snowballs(const std::vector<PredictedRow>& rows, bool is_trusted) {
  SnowballReport report;
  std::vector<double> scores;
  std::vector<bool> failing;
  for (const PredictedRow& row : rows) {
    if (row.measured.setting.policy != "evict" || !row.measured.right_tokens || row.snowball.survival.empty() ||
        row.snowball.is_trusted != is_trusted) {
      continue;
    }
    const auto right = static_cast<double>(*row.measured.right_tokens);
    const double survival = row.snowball.survival.back();
    const double exact = row.measured.is_failing ? 0 : 1;
    report.mean_measured += right;
    report.mean_estimated += row.snowball.expected_right_tokens;
    report.mean_error += std::abs(row.snowball.expected_right_tokens - right);
    report.brier += (survival - exact) * (survival - exact);
    scores.push_back(-survival);
    failing.push_back(row.measured.is_failing);
  }
  report.rows = static_cast<std::int64_t>(scores.size());
  const double count = report.rows > 0 ? static_cast<double>(report.rows) : kUnknown;
  for (double* mean : {&report.mean_measured, &report.mean_estimated, &report.mean_error, &report.brier})
    *mean /= count;
  report.auc = area_under_curve(scores, failing);
  return report;
}

double known_or(double value, double otherwise) {
  return std::isnan(value) ? otherwise : value;
}

}  // namespace

double area_under_curve(const std::vector<double>& scores, const std::vector<bool>& is_failing) {
  KVTIDE_ASSERT(scores.size() == is_failing.size(), "a score a row");
  const std::vector<double> rank = ranks(scores);
  double sum = 0;
  double failing = 0;
  for (std::size_t row = 0; row < scores.size(); ++row) {
    if (!is_failing[row]) continue;
    sum += rank[row];
    ++failing;
  }
  const double passing = static_cast<double>(scores.size()) - failing;
  if (failing == 0 || passing == 0) return kUnknown;
  return (sum - failing * (failing + 1) / 2) / (failing * passing);
}

double rank_correlation(const std::vector<double>& x, const std::vector<double>& y) {
  KVTIDE_ASSERT(x.size() == y.size(), "pairs");
  if (x.size() < 3) return kUnknown;
  const std::vector<double> a = ranks(x);
  const std::vector<double> b = ranks(y);
  const double mean = 0.5 * static_cast<double>(x.size() + 1);
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean) * (b[i] - mean);
    aa += (a[i] - mean) * (a[i] - mean);
    bb += (b[i] - mean) * (b[i] - mean);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : kUnknown;
}

ScanReport report_scans(const std::vector<PredictedRow>& rows) {
  ScanReport report;
  report.rows = static_cast<std::int64_t>(rows.size());
  std::map<MeasuredSetting, std::vector<const PredictedRow*>> configurations;
  std::vector<double> scores;
  std::vector<bool> failing;
  for (const PredictedRow& row : rows) {
    configurations[row.measured.setting].push_back(&row);
    if (row.measured.setting.policy != "evict") continue;
    scores.push_back(-row.predicted.weakest_margin);
    failing.push_back(row.measured.is_failing);
  }
  report.trusted = report_snowballs(rows, true);
  report.untrusted = report_snowballs(rows, false);
  for (const auto& [setting, of_setting] : configurations) {
    report.configurations.push_back(report_configuration(of_setting));
  }
  std::ranges::stable_sort(report.configurations, {}, [](const ConfigurationReport& configuration) {
    return std::pair(known_or(configuration.auc, 2), known_or(configuration.rho, 2));
  });
  report.pooled_auc = area_under_curve(scores, failing);
  return report;
}

}  // namespace kvtide::loss

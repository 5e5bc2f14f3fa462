#include "loss/outside_scan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/error.h"

namespace kvtide::loss {
namespace {

constexpr std::array<std::string_view, 3> kAxes{"position", "prefix_tokens", "prefix_chars"};
constexpr std::array<std::string_view, 3> kMeasures{"correct", "score", "logprob"};
constexpr double kLongest = 1e9;  ///< tokens or characters
constexpr double kMostMs = 1e9;

struct Range {
  double min;
  double max;
};
constexpr std::array<Range, 3> kMeasureRange{{{0, 1}, {0, 1e12}, {-1e6, 0}}};

/// Index into `names` of the one that the table has. @throws InputError for none or two
template <std::size_t N>
std::size_t column_among(const config::CsvTable& table, const std::array<std::string_view, N>& names,
                         std::string_view what) {
  const auto& columns = table.columns();
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < N; ++i) {
    if (std::find(columns.begin(), columns.end(), names[i]) != columns.end()) found.push_back(i);
  }
  if (found.size() == 1) return found[0];
  if (found.empty()) {
    throw InputError(fmt::format("{}:1: no column for {}; expected one of {} (columns: {})", table.origin(), what,
                                 fmt::join(names, ", "), fmt::join(columns, ", ")));
  }
  throw InputError(fmt::format("{}:1: columns \"{}\" and \"{}\" both say {}; expected one of them", table.origin(),
                               names[found[0]], names[found[1]], what));
}

bool has_column(const config::CsvTable& table, std::string_view name) {
  return std::find(table.columns().begin(), table.columns().end(), name) != table.columns().end();
}

/// NaN where the column is missing or its cell empty.
double optional_number(const config::CsvTable& table, std::size_t row, std::string_view column, bool is_there,
                       Range range) {
  if (!is_there || table.text(row, column).empty()) return kNotMeasured;
  return table.number(row, column, range.min, range.max);
}

/// An outcome; pandas and Python write yes-or-no answers as True and False.
double outcome(const config::CsvTable& table, std::size_t row, std::string_view column, ScanMeasure measure) {
  const std::string& cell = table.text(row, column);
  if (measure == ScanMeasure::correct) {
    if (cell == "True" || cell == "true" || cell == "TRUE") return 1;
    if (cell == "False" || cell == "false" || cell == "FALSE") return 0;
  }
  const Range range = kMeasureRange[static_cast<std::size_t>(measure)];
  return table.number(row, column, range.min, range.max);
}

double optional_outcome(const config::CsvTable& table, std::size_t row, std::string_view column, bool is_there,
                        ScanMeasure measure) {
  if (!is_there || table.text(row, column).empty()) return kNotMeasured;
  return outcome(table, row, column, measure);
}

/// Mean of what was measured.
class Mean {
 public:
  void add(double value) {
    if (std::isnan(value)) return;
    sum_ += value;
    count_ += 1;
  }
  [[nodiscard]] double value() const { return count_ > 0 ? sum_ / count_ : kNotMeasured; }

 private:
  double sum_ = 0;
  double count_ = 0;
};

struct Row {
  double at = 0;
  double value = 0;
  double baseline = kNotMeasured;
  double control = kNotMeasured;
  double tokens = kNotMeasured;
  double latency_ms = kNotMeasured;
  std::string probe;
};

/// How a measure becomes a success and a loss.
struct Scale {
  ScanMeasure measure;
  double best = 1;  ///< a full score: 1, or the highest score or baseline where some exceed 1

  [[nodiscard]] double success(double value, double baseline) const {
    switch (measure) {
      case ScanMeasure::correct:
        return value;
      case ScanMeasure::score:
        return std::min(1.0, value / best);
      case ScanMeasure::logprob:
        return std::exp(std::min(0.0, value - (std::isnan(baseline) ? 0.0 : baseline)));
    }
    return 0;
  }
  [[nodiscard]] double reference(double baseline) const {
    if (!std::isnan(baseline)) return baseline;
    switch (measure) {
      case ScanMeasure::correct:
        return 1;
      case ScanMeasure::score:
        return best;
      case ScanMeasure::logprob:
        return 0;
    }
    return 0;
  }
};

std::vector<OutsideScan::Probe> probes_of(const std::vector<Row>& rows, const Scale& scale) {
  std::vector<OutsideScan::Probe> result;
  std::map<std::pair<std::string, double>, Mean> by_place;
  for (const Row& row : rows) by_place[{row.probe, row.at}].add(scale.success(row.value, row.baseline));
  for (const Row& row : rows) {
    auto place = std::find_if(result.begin(), result.end(), [&](const auto& probe) { return probe.type == row.probe; });
    if (place == result.end()) place = result.insert(result.end(), {row.probe, 0, 0, 1});
    ++place->rows;
    place->mean_success += scale.success(row.value, row.baseline);
    place->worst_success = std::min(place->worst_success, by_place[{row.probe, row.at}].value());
  }
  for (auto& probe : result) probe.mean_success /= static_cast<double>(probe.rows);
  return result;
}

}  // namespace

std::string_view to_string(ScanAxis axis) {
  return kAxes[static_cast<std::size_t>(axis)];
}
std::string_view to_string(ScanMeasure measure) {
  return kMeasures[static_cast<std::size_t>(measure)];
}

std::string_view unit_of(ScanAxis axis) {
  return axis == ScanAxis::prefix_chars ? "characters" : "tokens";
}

std::string_view unit_of(ScanMeasure measure) {
  constexpr std::array<std::string_view, 3> kUnits{"of answers", "of the score", "nats"};
  return kUnits[static_cast<std::size_t>(measure)];
}

ScanSeries OutsideScan::losses() const {
  ScanSeries series;
  for (const ScanPoint& point : points) {
    series.at.push_back(point.at);
    series.value.push_back(point.loss);
  }
  return series;
}

ScanSeries OutsideScan::latencies() const {
  ScanSeries series;
  for (const ScanPoint& point : points) {
    if (std::isnan(point.latency_ms)) continue;
    series.at.push_back(point.at);
    series.value.push_back(point.latency_ms);
  }
  return series;
}

double OutsideScan::tokens_per_unit() const {
  if (axis != ScanAxis::prefix_chars) return 1;
  Mean mean_at;
  Mean mean_tokens;
  for (const ScanPoint& point : points) {
    if (std::isnan(point.tokens)) continue;
    mean_at.add(point.at);
    mean_tokens.add(point.tokens);
  }
  double product = 0;
  double squares = 0;
  for (const ScanPoint& point : points) {
    if (std::isnan(point.tokens)) continue;
    product += (point.at - mean_at.value()) * (point.tokens - mean_tokens.value());
    squares += (point.at - mean_at.value()) * (point.at - mean_at.value());
  }
  return squares > 0 && product > 0 ? product / squares : kNotMeasured;
}

OutsideScan read_outside_scan(const config::CsvTable& table, const ScanReference& reference) {
  OutsideScan scan;
  scan.origin = table.origin();
  scan.axis = static_cast<ScanAxis>(column_among(table, kAxes, "the place"));
  scan.measure = static_cast<ScanMeasure>(column_among(table, kMeasures, "the outcome"));
  if (table.num_rows() == 0) throw InputError(fmt::format("{}:1: a header and no rows", table.origin()));
  const std::string_view axis = to_string(scan.axis);
  const std::string_view measure = to_string(scan.measure);
  const bool has_baseline = reference.uses_baseline && has_column(table, "baseline");
  const bool has_control = has_column(table, "control");
  const bool has_tokens = has_column(table, "tokens");
  const bool has_latency = has_column(table, "latency_ms");
  const bool has_probe = has_column(table, "probe_type");

  std::vector<Row> rows(table.num_rows());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Row& row = rows[i];
    row.at = table.number(i, axis, 0, kLongest);
    row.value = outcome(table, i, measure, scan.measure);
    row.baseline = optional_outcome(table, i, "baseline", has_baseline, scan.measure);
    row.control = optional_outcome(table, i, "control", has_control, scan.measure);
    row.tokens = optional_number(table, i, "tokens", has_tokens, {0, kLongest});
    row.latency_ms = optional_number(table, i, "latency_ms", has_latency, {0, kMostMs});
    if (has_probe) row.probe = table.text(i, "probe_type");
    scan.has_baseline = scan.has_baseline || !std::isnan(row.baseline);
  }
  // Losses against a baseline and losses against nothing do not compare: where the gaps are regular, they would be a period.
  if (scan.has_baseline) {
    scan.rows_left_out =
        static_cast<std::int64_t>(std::erase_if(rows, [](const Row& row) { return std::isnan(row.baseline); }));
  }
  Scale scale{scan.measure};
  double highest = reference.best_score;
  for (const Row& row : rows) highest = std::max({highest, row.value, std::isnan(row.baseline) ? 0.0 : row.baseline});
  if (scan.measure == ScanMeasure::score) {
    scan.best_score = highest;
    scale.best = std::max(1.0, highest);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.at < b.at; });
  scan.rows = static_cast<std::int64_t>(rows.size());
  scan.repeats = scan.rows;
  for (std::size_t begin = 0; begin < rows.size();) {
    std::size_t end = begin;
    Mean success;
    Mean loss;
    Mean control;
    Mean baseline;
    Mean tokens;
    Mean latency;
    for (; end < rows.size() && rows[end].at == rows[begin].at; ++end) {
      const Row& row = rows[end];
      success.add(scale.success(row.value, row.baseline));
      loss.add(scale.reference(row.baseline) - row.value);
      if (!std::isnan(row.control)) control.add(scale.success(row.control, row.baseline));
      if (!std::isnan(row.baseline)) baseline.add(scale.success(row.baseline, kNotMeasured));
      tokens.add(row.tokens);
      latency.add(row.latency_ms);
    }
    const auto repeats = static_cast<std::int64_t>(end - begin);
    scan.points.push_back({rows[begin].at, success.value(), loss.value(), control.value(), baseline.value(),
                           tokens.value(), latency.value(), repeats});
    scan.repeats = std::min(scan.repeats, repeats);
    begin = end;
  }
  if (has_probe) scan.probes = probes_of(rows, scale);
  return scan;
}

std::pair<OutsideScan, OutsideScan> read_scans_to_compare(const config::CsvTable& before,
                                                          const config::CsvTable& after) {
  const OutsideScan first = read_outside_scan(before);
  const OutsideScan second = read_outside_scan(after);
  const ScanReference shared{.uses_baseline = first.has_baseline && second.has_baseline,
                             .best_score = std::max(first.best_score, second.best_score)};
  return {read_outside_scan(before, shared), read_outside_scan(after, shared)};
}

}  // namespace kvtide::loss

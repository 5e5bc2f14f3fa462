#pragma once
// A text that a monitor reads: OpenMetrics 1.0 (prometheus.io/docs/specs/om/open_metrics_spec/), gauges only.
//
// Example: {"kvtide_scan_stability", "", "...", 0.75}, label scan="a" ->
//   # TYPE kvtide_scan_stability gauge
//   # HELP kvtide_scan_stability ...
//   kvtide_scan_stability{scan="a"} 0.75
//   # EOF

#include <string>
#include <vector>

namespace kvtide::cli {

struct Gauge {
  std::string name;  ///< [a-z_], ending in _UNIT where there is one
  std::string unit;  ///< "tokens"; empty: none
  std::string help;
  double value = 0;  ///< NaN and infinities are allowed
};

struct MetricLabel {
  std::string name;
  std::string value;  ///< escaped here
};

/// The whole document, closed with its end mark.
[[nodiscard]] std::string open_metrics_text(const std::vector<Gauge>& gauges, const std::vector<MetricLabel>& labels);

}  // namespace kvtide::cli

#include "cli/open_metrics.h"

#include <fmt/format.h>

#include <cmath>

namespace kvtide::cli {
namespace {

/// Backslash, line feed and double quote, the only three that the format escapes.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\\\";
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '"') {
      result += "\\\"";
    } else {
      result += c;
    }
  }
  return result;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

std::string open_metrics_text(const std::vector<Gauge>& gauges, const std::vector<MetricLabel>& labels) {
  std::string set;
  for (const MetricLabel& label : labels)
    set += fmt::format("{}{}=\"{}\"", set.empty() ? "" : ",", label.name, escaped(label.value));
  if (!set.empty()) set = "{" + set + "}";
  std::string text;
  for (const Gauge& gauge : gauges) {
    text += fmt::format("# TYPE {} gauge\n", gauge.name);
    if (!gauge.unit.empty()) text += fmt::format("# UNIT {} {}\n", gauge.name, gauge.unit);
    text +=
        fmt::format("# HELP {} {}\n{}{} {}\n", gauge.name, escaped(gauge.help), gauge.name, set, number(gauge.value));
  }
  return text + "# EOF\n";
}

}  // namespace kvtide::cli

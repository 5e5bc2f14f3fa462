#include "experiment/baseline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace kvtide::experiment {
namespace {

using config::Value;

/// One value that the baseline fixes.
struct Fixed {
  std::size_t axis = 0;
  std::vector<std::int64_t> values;  ///< indices into the axis' labels that carry the label
};

std::vector<Fixed> read_fixed(const Value& baseline, const std::vector<Axis>& axes) {
  std::vector<Fixed> fixed;
  std::vector<std::string> columns;
  for (const Axis& axis : axes) columns.push_back(axis.column);
  for (const std::string& key : baseline.keys()) {
    const Value wanted = baseline.at(key);
    const auto column = std::ranges::find(columns, key);
    if (column == columns.end()) {
      wanted.error(fmt::format("is not swept (swept: {})",
                               columns.empty() ? "nothing" : fmt::format("{}", fmt::join(columns, ", "))));
      continue;
    }
    Fixed one{.axis = static_cast<std::size_t>(column - columns.begin()), .values = {}};
    const std::vector<std::string>& labels = axes[one.axis].labels;
    const std::string label = wanted.text();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] == label) one.values.push_back(static_cast<std::int64_t>(i));
    }
    if (one.values.empty()) {
      wanted.error(fmt::format("expected one of {}, got {}", fmt::join(labels, ", "), label));
      continue;
    }
    fixed.push_back(std::move(one));
  }
  return fixed;
}

}  // namespace

void find_baselines(const Value& baseline, const std::vector<Axis>& axes, std::vector<Run>& runs) {
  if (!baseline.exists() || baseline.is_null()) return;
  const std::vector<Fixed> fixed = read_fixed(baseline, axes);
  baseline.accept_all();
  if (fixed.empty()) return;
  // Runs that differ in fixed keys only share a group; zipped axes repeat labels, so labels are compared, not indices.
  const auto group_of = [&](const Run& run) {
    std::vector<std::string> group;
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      if (std::ranges::find(fixed, axis, &Fixed::axis) != fixed.end()) continue;
      group.push_back(axes[axis].labels[static_cast<std::size_t>(run.axis_values[axis])]);
    }
    return group;
  };
  const auto is_baseline = [&](const Run& run) {
    return std::ranges::all_of(fixed, [&](const Fixed& one) {
      return std::ranges::find(one.values, run.axis_values[one.axis]) != one.values.end();
    });
  };
  std::map<std::vector<std::string>, std::int64_t> baselines;
  for (const Run& run : runs) {
    if (is_baseline(run)) baselines.try_emplace(group_of(run), run.index);
  }
  for (Run& run : runs) {
    const auto found = baselines.find(group_of(run));
    if (found == baselines.end()) {
      baseline.error(fmt::format("run {} has no baseline: no run has these values beside {}", run_name(run.index),
                                 fmt::join(group_of(run), ", ")));
      return;
    }
    run.baseline = found->second;
  }
}

}  // namespace kvtide::experiment

#include "experiment/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/error.h"
#include "experiment/sweep_sample.h"

namespace kvtide::experiment {
namespace {

using config::Value;

bool is_integer_text(const std::string& text) {
  std::int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && rest == text.data() + text.size();
}

bool is_number_text(const std::string& text) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && rest == text.data() + text.size();
}

/// "a.b" lies inside "a"; "ab" does not.
bool lies_inside(const std::string& inner, const std::string& outer) {
  return inner.size() > outer.size() && inner.starts_with(outer) &&
         (inner[outer.size()] == '.' || inner[outer.size()] == '[');
}

/// Label, type and checks of an axis whose values are known.
void finish_axis(SweepAxis& axis, const Value& place, bool must_differ) {
  bool all_integers = true, all_numbers = true;
  for (SweepValue& value : axis.values) {
    std::string label = value.yaml;
    if (value.node) {
      const Value element = *value.node;
      label = element.text();
      if (element.is_map() && element.at("value").exists()) {
        value.node = element.at("value");
        label = element.string("label");
        value.node->accept_all();
        element.finish();  // label and value, nothing else
      }
      if (label.empty()) element.error("a label must not be empty");
      if (must_differ && std::ranges::find(axis.axis.labels, label) != axis.axis.labels.end()) {
        element.error(
            fmt::format("\"{}\" is already a value of this axis; give each its own label", label.substr(0, 80)));
      }
    }
    const bool is_scalar = !value.node || value.node->is_scalar();
    all_integers = all_integers && is_scalar && is_integer_text(label);
    all_numbers = all_numbers && is_scalar && is_number_text(label);
    axis.axis.labels.push_back(std::move(label));
  }
  if (axis.values.empty()) place.error("expected at least one value");
  axis.axis.type = all_integers ? AxisType::integer : all_numbers ? AxisType::number : AxisType::text;
}

/// `key: [values]` or `key: {range: {...}}`.
SweepAxis read_axis(const Value& source, const std::string& key, bool must_differ, const IsIntegerKey& is_integer_key) {
  SweepAxis axis;
  axis.axis.column = key;
  if (source.is_map() && source.at("range").exists()) {
    const Value range = source.at("range");
    for (std::string& text : range_values(range, is_integer_key(key))) {
      axis.values.push_back({std::nullopt, std::move(text), range});
    }
    range.finish();
    source.finish();
  } else {
    for (const Value& element : source.items()) axis.values.push_back({element, "", std::nullopt});
  }
  if (source.is_list() || source.is_map()) finish_axis(axis, source, must_differ);
  source.accept_all();
  return axis;
}

/// Axes of equal length that move together.
SweepGroup read_zip(const Value& zip, const IsIntegerKey& is_integer_key) {
  SweepGroup group;
  for (const std::string& key : zip.keys()) {
    SweepAxis axis = read_axis(zip.at(key), key, false, is_integer_key);
    if (!group.axes.empty() && axis.values.size() != group.num_points) {
      zip.at(key).error(fmt::format("{} values, but {} has {}: zipped axes have equal lengths", axis.values.size(),
                                    group.axes.front().axis.column, group.num_points));
    }
    group.num_points = group.axes.empty() ? axis.values.size() : std::min(group.num_points, axis.values.size());
    group.axes.push_back(std::move(axis));
  }
  return group;
}

/// A list of points, each a mapping of the same keys.
SweepGroup read_list(const Value& list) {
  SweepGroup group;
  const std::vector<Value> points = list.items();
  if (points.empty()) {
    if (list.is_list()) list.error("expected at least one point");
    return group;
  }
  for (const std::string& key : points.front().keys()) {
    SweepAxis axis;
    axis.axis.column = key;
    for (const Value& point : points) {
      const Value value = point.at(key);
      if (!value.exists()) point.error(fmt::format("{} is missing: every point of a list has the same keys", key));
      axis.values.push_back({value, "", std::nullopt});
    }
    group.axes.push_back(std::move(axis));
  }
  for (const Value& point : points) point.finish();
  for (SweepAxis& axis : group.axes) finish_axis(axis, list, false);
  list.accept_all();
  group.num_points = points.size();
  return group;
}

void read_conditions(const Value& when, Sweep& sweep) {
  for (const Value& element : when.items()) {
    try {
      sweep.conditions.emplace_back(parse_condition(element.as_string()), element);
    } catch (const InputError& error) {
      element.error(error.what());
    }
  }
}

/// `zip:` and `list:` take one group or, for several independent ones, a list of groups (zip) or nothing else (list).
std::vector<SweepGroup> read_zips(const Value& zip, const IsIntegerKey& is_integer_key) {
  std::vector<SweepGroup> groups;
  if (zip.is_list()) {
    for (const Value& one : zip.items()) groups.push_back(read_zip(one, is_integer_key));
  } else {
    groups.push_back(read_zip(zip, is_integer_key));
  }
  zip.accept_all();
  return groups;
}

/// Axes of a group that may be swept and that no --set pins; errors for the others.
void check_keys(SweepGroup& group, const Value& place, const Overrides& overrides, std::vector<std::string>& seen) {
  std::erase_if(group.axes, [&](const SweepAxis& axis) {
    const std::string& key = axis.axis.column;
    if (key.empty() || key == "name" || key == "measure" || key == "sweep" || lies_inside(key, "sweep")) {
      place.error(fmt::format("{}: this key cannot be swept", key));
      return true;
    }
    for (const std::string& other : seen) {
      if (key == other) place.error(fmt::format("{}: is already an axis", key));
      if (lies_inside(key, other) || lies_inside(other, key)) {
        place.error(fmt::format("{}: overlaps the axis {}", key, other));
      }
    }
    seen.push_back(key);
    for (const auto& [set_key, set_value] : overrides.sets) {
      if (lies_inside(set_key, key) || lies_inside(key, set_key)) {
        place.error(fmt::format("--set {} changes a part of this axis; set {} itself", set_key, key));
      }
    }
    return (overrides.seed && key == "seed") ||
           std::ranges::any_of(overrides.sets, [&key](const auto& set) { return set.first == key; });
  });
}

}  // namespace

std::uint64_t Sweep::num_combinations() const {
  std::uint64_t product = 1;
  for (const SweepGroup& group : groups) {
    if (__builtin_mul_overflow(product, group.num_points, &product)) return std::numeric_limits<std::uint64_t>::max();
  }
  return product;
}

Sweep read_sweep(const Value& value, const Overrides& overrides, const IsIntegerKey& is_integer_key) {
  Sweep sweep;
  if (!value.exists() || value.is_null()) return sweep;
  std::vector<std::string> seen;
  for (const std::string& key : value.keys()) {
    const Value part = value.at(key);
    std::vector<SweepGroup> groups;
    if (key == "when") {
      read_conditions(part, sweep);
    } else if (key == "zip") {
      groups = read_zips(part, is_integer_key);
    } else if (key == "list") {
      groups.push_back(read_list(part));
    } else if (key == "sample") {
      groups.push_back(read_sample(part, is_integer_key));
      for (SweepAxis& axis : groups.back().axes) finish_axis(axis, part, false);
    } else {
      groups.emplace_back();
      groups.back().axes.push_back(read_axis(part, key, true, is_integer_key));
      groups.back().num_points = groups.back().axes.front().values.size();
    }
    for (SweepGroup& group : groups) {
      check_keys(group, part, overrides, seen);
      if (!group.axes.empty()) sweep.groups.push_back(std::move(group));
    }
  }
  if (sweep.num_combinations() > kMaxRuns) {
    value.error(fmt::format("expected at most {} runs, got {}", kMaxRuns, sweep.num_combinations()));
  }
  return sweep;
}

}  // namespace kvtide::experiment

#include "experiment/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

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

SweepAxis read_axis(const Value& list, const std::string& key) {
  SweepAxis result;
  result.axis.column = key;
  bool all_integers = true;
  bool all_numbers = true;
  for (const Value& element : list.items()) {
    Value value = element;
    std::string label = element.text();
    if (element.is_map() && element.at("value").exists()) {
      value = element.at("value");
      label = element.string("label");
      value.accept_all();
      element.finish();  // label and value, nothing else
    }
    if (label.empty()) element.error("a label must not be empty");
    if (std::ranges::find(result.axis.labels, label) != result.axis.labels.end()) {
      element.error(
          fmt::format("\"{}\" is already a value of this axis; give each its own label", label.substr(0, 80)));
    }
    all_integers = all_integers && value.is_scalar() && is_integer_text(label);
    all_numbers = all_numbers && value.is_scalar() && is_number_text(label);
    result.axis.labels.push_back(std::move(label));
    result.values.push_back(std::move(value));
  }
  if (list.is_list() && result.values.empty()) list.error("expected at least one value");
  result.axis.type = all_integers ? AxisType::integer : all_numbers ? AxisType::number : AxisType::text;
  return result;
}

}  // namespace

std::uint64_t num_runs(const std::vector<SweepAxis>& axes) {
  std::uint64_t product = 1;
  for (const SweepAxis& axis : axes) {
    if (__builtin_mul_overflow(product, axis.values.size(), &product)) return std::numeric_limits<std::uint64_t>::max();
  }
  return product;
}

std::vector<SweepAxis> read_sweep(const Value& sweep, const Overrides& overrides) {
  std::vector<SweepAxis> axes;
  if (!sweep.exists() || sweep.is_null()) return axes;
  for (const std::string& key : sweep.keys()) {
    const Value list = sweep.at(key);
    if (key == "zip") {
      list.accept_all();
      list.error("not available yet: zip (available: cartesian axes)");
      continue;
    }
    if (key.empty() || key == "name" || key == "measure" || key == "sweep" || lies_inside(key, "sweep")) {
      list.accept_all();
      list.error("this key cannot be swept");
      continue;
    }
    bool is_pinned = false;
    for (const auto& [set_key, set_value] : overrides.sets) {
      is_pinned = is_pinned || set_key == key;
      if (lies_inside(set_key, key) || lies_inside(key, set_key)) {
        list.error(fmt::format("--set {} changes a part of this axis; set {} itself", set_key, key));
      }
    }
    if (overrides.seed && key == "seed") is_pinned = true;
    SweepAxis axis = read_axis(list, key);
    list.accept_all();
    for (const SweepAxis& other : axes) {
      if (lies_inside(key, other.axis.column) || lies_inside(other.axis.column, key)) {
        list.error(fmt::format("overlaps the axis {}", other.axis.column));
      }
    }
    if (!is_pinned) axes.push_back(std::move(axis));
  }
  if (num_runs(axes) > kMaxRuns) {
    sweep.error(fmt::format("expected at most {} runs, got {}", kMaxRuns, num_runs(axes)));
  }
  return axes;
}

}  // namespace kvtide::experiment

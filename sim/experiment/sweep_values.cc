// Values that a sweep makes itself: ranges and samples.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "experiment/sweep.h"
#include "experiment/sweep_sample.h"

namespace kvtide::experiment {
namespace {

using config::Value;

constexpr double kLargest = 1e15;  // exact as an integer in a double

/// An interval that values are taken from.
struct Interval {
  double from = 0, to = 0;
  bool is_log = false;
  bool is_integer = false;

  /// @param share  0..1
  [[nodiscard]] double at(double share) const {
    const double value = is_log ? from * std::pow(to / from, share) : from + (to - from) * share;
    return std::clamp(is_integer ? std::round(value) : value, std::min(from, to), std::max(from, to));
  }
  [[nodiscard]] std::string text(double value) const {
    if (is_integer) return fmt::format("{}", std::llround(value));
    // Six decimals are what shares such as keep_ratio take; small values keep six digits instead.
    const bool is_small = value != 0 && std::abs(value) < 1e-3;
    return fmt::format("{:.12g}", is_small ? std::stod(fmt::format("{:.6g}", value)) : std::round(value * 1e6) / 1e6);
  }
};

Interval read_interval(const Value& value, bool is_integer_key) {
  Interval interval;
  interval.from = value.number("from", {.fallback = {}, .min = -kLargest, .max = kLargest});
  interval.to = value.number("to", {.fallback = {}, .min = -kLargest, .max = kLargest});
  interval.is_log = value.choice("scale", {"linear", "log"}, "linear") == "log";
  const bool are_whole = interval.from == std::floor(interval.from) && interval.to == std::floor(interval.to);
  interval.is_integer = value.boolean("integer", are_whole && is_integer_key);
  if (interval.is_log && (interval.from <= 0 || interval.to <= 0)) {
    value.error("scale: log: expected from and to > 0");
    interval.is_log = false;
  }
  return interval;
}

/// @return the number of values a range asks for, at most kMaxRuns + 1
std::size_t stepped_count(const Interval& interval, double step) {
  const double steps = (interval.to - interval.from) / step;
  // The slack takes (0.9 - 0.1) / 0.1 = 7.999... as 8 steps.
  return steps < 0 ? 0 : static_cast<std::size_t>(std::min(std::floor(steps + 1e-9) + 1, double{kMaxRuns + 1}));
}

}  // namespace

std::vector<std::string> range_values(const Value& range, bool is_integer_key) {
  Interval interval = read_interval(range, is_integer_key);
  std::vector<std::string> values;
  bool do_differ = true;
  const auto add = [&](std::string text) {
    if (values.empty() || values.back() != text) {
      values.push_back(std::move(text));
    } else if (do_differ) {
      range.error(fmt::format("values do not differ: {} comes twice{}", text,
                              interval.is_integer ? ", rounded to whole numbers (integer: true)" : ""));
      do_differ = false;
    }
  };
  if (range.at("step").exists()) {
    const double step = range.number("step", {.fallback = {}, .min = -kLargest, .max = kLargest});
    if (step == 0 || interval.is_log || range.at("count").exists()) {
      range.error("step: expected a number other than 0, without count and without scale: log");
      return values;
    }
    if (step != std::floor(step)) interval.is_integer = false;
    const std::size_t count = stepped_count(interval, step);
    if (count == 0) range.error("step: leads away from `to`");
    for (std::size_t i = 0; i < count; ++i) add(interval.text(interval.from + static_cast<double>(i) * step));
    return values;
  }
  const std::int64_t count = range.integer("count", {.fallback = {}, .min = 1, .max = kMaxRuns});
  for (std::int64_t i = 0; i < count; ++i) {
    add(interval.text(interval.at(count == 1 ? 0.0 : static_cast<double>(i) / static_cast<double>(count - 1))));
  }
  return values;
}

SweepGroup read_sample(const Value& sample, const IsIntegerKey& is_integer_key) {
  SweepGroup group;
  const std::int64_t count = sample.integer("count", {.fallback = {}, .min = 1, .max = kMaxRuns});
  const bool is_stratified =
      sample.choice("method", {"random", "latin_hypercube"}, "latin_hypercube") == "latin_hypercube";
  const auto seed = static_cast<std::uint64_t>(sample.integer("seed", {.fallback = 1, .min = 0}));
  const Value axes = sample.at("axes");
  if (!axes.exists()) sample.error("axes: required: a mapping key -> {from, to} or a list of values");
  group.num_points = static_cast<std::size_t>(count);
  for (const std::string& key : axes.keys()) {
    const Value source = axes.at(key);
    // A stream for each key: an axis more or less leaves the others as they were.
    RandomStream random(seed, "sweep " + key);
    std::vector<std::size_t> strata(group.num_points);
    std::iota(strata.begin(), strata.end(), std::size_t{0});
    for (std::size_t i = strata.size(); i-- > 1;) std::swap(strata[i], strata[random.below(i + 1)]);
    const auto share = [&](std::size_t point) {
      return is_stratified ? (static_cast<double>(strata[point]) + random.uniform()) / static_cast<double>(count)
                           : random.uniform();
    };
    SweepAxis axis;
    axis.axis.column = key;
    if (source.is_list()) {
      const std::vector<Value> choices = source.items();
      if (choices.empty()) source.error("expected at least one value");
      for (std::size_t point = 0; point < group.num_points && !choices.empty(); ++point) {
        const auto index = static_cast<std::size_t>(share(point) * static_cast<double>(choices.size()));
        axis.values.push_back({choices[std::min(index, choices.size() - 1)], "", std::nullopt});
      }
      source.accept_all();
    } else {
      const Interval interval = read_interval(source, is_integer_key(key));
      for (std::size_t point = 0; point < group.num_points; ++point) {
        axis.values.push_back({std::nullopt, interval.text(interval.at(share(point))), source});
      }
      source.finish();
    }
    group.axes.push_back(std::move(axis));
  }
  sample.finish();
  return group;
}

}  // namespace kvtide::experiment

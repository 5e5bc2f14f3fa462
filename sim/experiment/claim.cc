#include "experiment/claim.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiment/columns.h"

namespace kvtide::experiment {
namespace {

using config::Value;
using Over = ClaimValue::Over;
using Relation = ClaimCheck::Relation;

ClaimValue read_value(const Value& value) {
  ClaimValue read;
  if (!value.is_map()) {
    read.number = value.as_number();
    return read;
  }
  read.column = value.string("column");
  if (!read.column.empty() && find_column(read.column) == nullptr) {
    value.at("column").error(fmt::format("unknown column \"{}\" (kvtide explain lists them)", read.column));
  }
  const std::string over = value.choice("over", {"mean", "min", "max", "deviation"}, "mean");
  read.over = over == "min"         ? Over::min
              : over == "max"       ? Over::max
              : over == "deviation" ? Over::deviation
                                    : Over::mean;
  if (const Value where = value.at("where"); where.is_map()) {
    for (const std::string& key : where.keys()) read.where.emplace_back(key, where.at(key).as_string());
  }
  return read;
}

ClaimCheck read_check(const Value& value) {
  ClaimCheck check;
  check.part = value.string("part");
  check.value = read_value(value.at("value"));
  const Value above = value.at("above");
  const Value below = value.at("below");
  const Value between = value.at("between");
  if (static_cast<int>(above.exists()) + static_cast<int>(below.exists()) + static_cast<int>(between.exists()) != 1) {
    value.error("expected exactly one of above, below, between");
    return check;
  }
  if (between.exists()) {
    check.relation = Relation::between;
    const std::vector<Value> ends = between.items();
    if (ends.size() != 2) {
      between.error(fmt::format("expected [low, high], got {} values", ends.size()));
      return check;
    }
    check.low = ends[0].as_number();
    check.high = ends[1].as_number();
    return check;
  }
  check.relation = above.exists() ? Relation::above : Relation::below;
  check.right = read_value(above.exists() ? above : below);
  check.times = value.number("times", {.fallback = 1});
  return check;
}

bool fits(const ClaimValue& value, const Experiment& experiment, const Run& run) {
  return std::ranges::all_of(value.where, [&](const auto& wanted) {
    const auto axis = std::ranges::find(experiment.axes, wanted.first, &Axis::column);
    if (axis == experiment.axes.end()) return false;
    const auto index = static_cast<std::size_t>(axis - experiment.axes.begin());
    return axis->labels[static_cast<std::size_t>(run.axis_values[index])] == wanted.second;
  });
}

double evaluate(const ClaimValue& value, const Experiment& experiment, const std::vector<RunResult>& results) {
  if (value.number) return *value.number;
  std::vector<double> found;
  for (std::size_t index = 0; index < results.size(); ++index) {
    if (results[index].status != RunStatus::ok || !fits(value, experiment, experiment.runs[index])) continue;
    const auto number = results[index].numbers.find(value.column);
    if (number != results[index].numbers.end()) found.push_back(number->second);
  }
  if (found.empty()) return std::numeric_limits<double>::quiet_NaN();
  if (value.over == Over::min) return *std::ranges::min_element(found);
  if (value.over == Over::max) return *std::ranges::max_element(found);
  double mean = 0;
  for (const double number : found) mean += number / static_cast<double>(found.size());
  if (value.over == Over::mean) return mean;
  double variance = 0;
  for (const double number : found) variance += (number - mean) * (number - mean) / static_cast<double>(found.size());
  return std::sqrt(variance);
}

CheckOutcome judge(const ClaimCheck& check, const Experiment& experiment, const std::vector<RunResult>& results) {
  CheckOutcome outcome;
  outcome.value = evaluate(check.value, experiment, results);
  if (check.relation == Relation::between) {
    outcome.right = check.low;
    outcome.passes = outcome.value >= check.low && outcome.value <= check.high;
    return outcome;
  }
  outcome.right = evaluate(check.right, experiment, results) * check.times;
  outcome.passes = check.relation == Relation::above ? outcome.value > outcome.right : outcome.value < outcome.right;
  return outcome;
}

}  // namespace

Claim read_claim(const Value& value) {
  Claim claim;
  claim.id = value.string("id");
  claim.says = value.string("says");
  const Value checks = value.at("checks");
  for (const Value& check : checks.items()) claim.checks.push_back(read_check(check));
  if (checks.is_list() && claim.checks.empty()) checks.error("expected at least one check");
  return claim;
}

ClaimOutcome judge(const Claim& claim, const Experiment& experiment, const std::vector<RunResult>& results) {
  ClaimOutcome outcome;
  for (const ClaimCheck& check : claim.checks) outcome.checks.push_back(judge(check, experiment, results));
  const auto passed = std::ranges::count(outcome.checks, true, &CheckOutcome::passes);
  outcome.verdict = passed == static_cast<std::ptrdiff_t>(outcome.checks.size()) ? Verdict::holds
                    : passed == 0                                                ? Verdict::does_not_hold
                                                                                 : Verdict::holds_if;
  return outcome;
}

std::string verdict_text(const Claim& claim, const ClaimOutcome& outcome) {
  if (outcome.verdict == Verdict::holds) return "holds";
  if (outcome.verdict == Verdict::does_not_hold) return "does not hold";
  std::vector<std::string> parts;
  for (std::size_t index = 0; index < outcome.checks.size(); ++index) {
    const std::string& part = claim.checks[index].part;
    if (outcome.checks[index].passes && std::ranges::find(parts, part) == parts.end()) parts.push_back(part);
  }
  return fmt::format("holds if: {}", fmt::join(parts, "; "));
}

std::string check_text(const ClaimCheck& check, const CheckOutcome& outcome) {
  const std::string bound =
      check.relation == Relation::between
          ? fmt::format("in {:.4g}..{:.4g}", check.low, check.high)
          : fmt::format("{} {:.4g}", check.relation == Relation::above ? ">" : "<", outcome.right);
  return fmt::format("{:.4g} {}{}", outcome.value, bound, outcome.passes ? "" : " (no)");
}

}  // namespace kvtide::experiment

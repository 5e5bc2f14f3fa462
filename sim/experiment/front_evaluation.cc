#include "experiment/front_evaluation.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "experiment/loss_evaluation.h"
#include "kv/partition.h"
#include "serving/front.h"

namespace kvtide::experiment {
namespace {

constexpr std::int64_t kDraws = 4096;
constexpr std::size_t kMostShifts = 24;

using serving::FrontShift;

/// The most frequent ones, each with the share of those that lie nearest to it on a ring of `modulus` tokens; by residue.
std::vector<FrontShift> frequent(std::vector<FrontShift> shifts, std::int64_t modulus) {
  if (shifts.size() <= kMostShifts) return shifts;
  std::ranges::stable_sort(shifts, std::greater<>{}, &FrontShift::share);
  std::vector<FrontShift> chosen(shifts.begin(), shifts.begin() + kMostShifts);
  for (std::size_t i = kMostShifts; i < shifts.size(); ++i) {
    const auto distance = [&](const FrontShift& one) {
      const std::int64_t apart = std::abs(one.tokens - shifts[i].tokens) % modulus;
      return std::min(apart, modulus - apart);
    };
    std::ranges::min_element(chosen, {}, distance)->share += shifts[i].share;
  }
  std::ranges::stable_sort(chosen, {}, [&](const FrontShift& one) { return one.tokens % modulus; });
  return chosen;
}

struct FrontLoss {
  std::vector<FrontShift> shifts;
  std::vector<double> mean, worst, change;  // [shift]
  double expected_mean = 0, expected_change = 0, worst_of_all = 0;
};

FrontLoss measure(const Run& run, const kv::Compression& setting, const TraceInputs& trace, const MeasuredLoss& unmoved,
                  const serving::Front& front) {
  // Beyond its period a longer front is like a shorter one; where there is none, lengths beyond the trace are all alike.
  const std::int64_t period = kv::prefix_period(setting);
  const std::int64_t modulus = period > 0 ? period : std::int64_t{1} << 40;
  FrontLoss found;
  found.shifts = frequent(serving::front_shifts(front, modulus, kDraws, run.seed), modulus);
  for (const FrontShift& shift : found.shifts) {
    const bool is_moved = shift.tokens % modulus != 0;
    const MeasuredLoss moved = is_moved ? measured_loss(run, kv::behind_prefix(setting, shift.tokens), trace) : unmoved;
    double change = 0;
    for (std::size_t i = 0; i < moved.profile.size(); ++i) change += std::abs(moved.profile[i] - unmoved.profile[i]);
    change /= static_cast<double>(std::max<std::size_t>(1, moved.profile.size()));
    found.mean.push_back(moved.spans.mean);
    found.worst.push_back(moved.spans.worst);
    found.change.push_back(change);
    found.expected_mean += shift.share * moved.spans.mean;
    found.expected_change += shift.share * change;
    found.worst_of_all = std::max(found.worst_of_all, moved.spans.worst);
  }
  return found;
}

}  // namespace

void evaluate_fronts(const Run& run, const kv::Compression& setting, const TraceInputs& trace, RunResult& result) {
  serving::Front front = run.setting.serving->front;
  if (!front.exists()) return;
  front.multiple = setting.block_size;
  const MeasuredLoss unmoved = measured_loss(run, setting, trace);
  front.is_padded = false;
  const FrontLoss bare = measure(run, setting, trace, unmoved, front);
  front.is_padded = true;
  const FrontLoss padded = measure(run, setting, trace, unmoved, front);
  auto& numbers = result.numbers;
  numbers["front_loss_mean"] = bare.expected_mean;
  numbers["front_loss_worst"] = bare.worst_of_all;
  numbers["front_loss_change"] = bare.expected_change;
  numbers["front_padded_loss_mean"] = padded.expected_mean;
  numbers["front_padded_loss_worst"] = padded.worst_of_all;
  numbers["front_padded_loss_change"] = padded.expected_change;
  std::vector<std::int64_t> tokens;
  std::vector<double> shares;
  for (const FrontShift& shift : bare.shifts) {
    tokens.push_back(shift.tokens);
    shares.push_back(shift.share);
  }
  result.dimensions.push_back(
      {"front/tokens", std::move(tokens), "Tokens in front of the text, without padding", "token"});
  const auto add = [&](const char* name, std::vector<double> values, const char* long_name, const std::string& units) {
    result.arrays.push_back({std::string("front/") + name, std::move(values), {"front/tokens"}, long_name, units});
  };
  const std::string units = units_of(run.setting.loss.metric);
  add("share", std::move(shares), "Share of the requests behind such a front", "1");
  add("loss_mean", bare.mean, "Mean loss behind it, weighted by attention", units);
  add("loss_worst", bare.worst, "Loss of the worst span behind it", units);
  add("loss_change", bare.change, "Mean change of a position's loss against no front", units);
}

}  // namespace kvtide::experiment

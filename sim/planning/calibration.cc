#include "planning/calibration.h"

#include <algorithm>
#include <cmath>

namespace kvtide::planning {
namespace {

constexpr double kSmallestFactor = 0.5, kLargestFactor = 2;
constexpr double kMostQueueing = 0.5;     // of a TTFT that an offset is taken from
constexpr double kLargestGapShare = 0.5;  // of the shortest measured time a token
constexpr double kSameError = 0.01;       // smaller differences between errors tell nothing

double square(double value) {
  return value * value;
}

CalibrationError error_of(const std::vector<MeasuredRun>& runs, const std::vector<PredictedRun>& predicted,
                          std::size_t first, std::size_t stride) {
  double ttft = 0, tpot = 0;
  int count = 0, with_ttft = 0;
  for (std::size_t i = first; i < runs.size(); i += stride, ++count) {
    tpot += square(std::log(predicted[i].tpot / runs[i].mean_tpot));
    if (std::isnan(runs[i].mean_ttft)) continue;
    ttft += square(std::log(predicted[i].ttft / runs[i].mean_ttft));
    ++with_ttft;
  }
  return {std::sqrt(ttft / with_ttft), std::sqrt(tpot / count)};  // 0 / 0 is NaN
}

/// Where `cost` is least in low..high, by golden section: it has one valley there.
template <typename Cost>
double least(double low, double high, int steps, const Cost& cost) {
  const double ratio = (std::sqrt(5.0) - 1) / 2;
  double a = high - ratio * (high - low), b = low + ratio * (high - low);
  double at_a = cost(a), at_b = cost(b);
  for (int step = 0; step < steps; ++step) {
    if (at_a <= at_b) {
      high = b, b = a, at_b = at_a;
      a = high - ratio * (high - low), at_a = cost(a);
    } else {
      low = a, a = b, at_a = at_b;
      b = low + ratio * (high - low), at_b = cost(b);
    }
  }
  return at_a <= at_b ? a : b;
}

}  // namespace

bool CalibrationOutcome::is_worse() const {
  const auto known = [](double error) { return std::isnan(error) ? 0 : error; };
  const auto both = [&](const CalibrationError& error) { return std::hypot(known(error.tpot), known(error.ttft)); };
  return known(held_out_after.tpot) > known(held_out_before.tpot) + kSameError ||
         both(held_out_after) > both(held_out_before) + kSameError;
}

CalibrationOutcome calibrate(const std::vector<MeasuredRun>& runs, const PredictRun& predict) {
  CalibrationOutcome outcome;
  const std::size_t stride = runs.size() > 1 ? 2 : 1;
  const auto predict_all = [&](const Calibration& calibration) {
    std::vector<PredictedRun> predicted;
    predicted.reserve(runs.size());
    for (const MeasuredRun& run : runs) predicted.push_back(predict(run, calibration));
    return predicted;
  };
  double shortest = runs.front().mean_tpot;
  for (std::size_t i = 0; i < runs.size(); i += stride) shortest = std::min(shortest, runs[i].mean_tpot);
  const auto tpot_error = [&](double factor, double gap) {
    double sum = 0;
    for (std::size_t i = 0; i < runs.size(); i += stride) {
      sum += square(std::log(predict(runs[i], {.step_factor = factor, .step_gap = gap}).tpot / runs[i].mean_tpot));
    }
    return sum;
  };
  const auto best_factor = [&](double gap) {
    return std::exp(least(std::log(kSmallestFactor), std::log(kLargestFactor), 9,
                          [&](double log_factor) { return tpot_error(std::exp(log_factor), gap); }));
  };
  Calibration& fitted = outcome.fitted;
  // One run cannot tell a gap from a factor.
  if (runs.size() > 2) {
    fitted.step_gap =
        least(0, kLargestGapShare * shortest, 7, [&](double gap) { return tpot_error(best_factor(gap), gap); });
  }
  fitted.step_factor = best_factor(fitted.step_gap);
  std::vector<double> offsets;
  for (std::size_t i = 0; i < runs.size(); i += stride) {
    if (std::isnan(runs[i].mean_ttft)) continue;
    const PredictedRun seen = predict(runs[i], fitted);
    if (seen.queueing <= kMostQueueing * seen.ttft) offsets.push_back(runs[i].mean_ttft - seen.ttft);
  }
  outcome.num_offsets = offsets.size();
  if (!offsets.empty()) {
    std::ranges::nth_element(offsets, offsets.begin() + static_cast<std::ptrdiff_t>(offsets.size() / 2));
    fitted.ttft_offset = std::max(0.0, offsets[offsets.size() / 2]);
  }

  outcome.predicted_before = predict_all({});
  outcome.predicted_after = predict_all(fitted);
  for (std::size_t i = 0; i < runs.size(); ++i) outcome.predicted_after[i].ttft += fitted.ttft_offset;
  outcome.before = error_of(runs, outcome.predicted_before, 0, stride);
  outcome.after = error_of(runs, outcome.predicted_after, 0, stride);
  outcome.held_out_before = error_of(runs, outcome.predicted_before, 1, 2);
  outcome.held_out_after = error_of(runs, outcome.predicted_after, 1, 2);
  outcome.num_fitted = (runs.size() + stride - 1) / stride;
  outcome.num_held_out = runs.size() - outcome.num_fitted;
  return outcome;
}

}  // namespace kvtide::planning

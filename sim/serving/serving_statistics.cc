#include "serving/serving_statistics.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <numeric>

namespace kvtide::serving {
namespace {

double sorted_quantile(const std::vector<double>& values, double share) {
  const double place = share * static_cast<double>(values.size() - 1);
  const auto lower = static_cast<std::size_t>(place);
  const std::size_t upper = std::min(lower + 1, values.size() - 1);
  return values[lower] + (place - static_cast<double>(lower)) * (values[upper] - values[lower]);
}

constexpr std::size_t kMostValues = 200'000;

}  // namespace

bool Objectives::are_met(const RequestTimes& times) const {
  if (ttft > 0 && to_seconds(times.ttft()) > ttft) return false;
  if (latency > 0 && to_seconds(times.latency()) > latency) return false;
  return !(tpot > 0 && times.output_tokens > 1 && times.tpot_seconds() > tpot);
}

void LatencySample::add(double seconds) {
  if (std::isnan(seconds)) return;
  if (values_.size() < kMostValues) {
    values_.push_back(seconds);
    return;
  }
  if (histogram_.count() == 0) {
    for (const double value : values_) histogram_.add(value);
  }
  histogram_.add(seconds);
}

LatencyFigures LatencySample::figures() const {
  if (histogram_.count() > 0) return figures_of(histogram_);
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (values_.empty()) return {kNone, kNone, kNone, kNone, kNone};
  std::vector<double> values = values_;
  std::ranges::sort(values);
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {sum / static_cast<double>(values.size()), sorted_quantile(values, 0.5), sorted_quantile(values, 0.9),
          sorted_quantile(values, 0.95), sorted_quantile(values, 0.99)};
}

LatencyFigures figures_of(const LatencyHistogram& gaps) {
  return {gaps.mean(), gaps.quantile(0.5), gaps.quantile(0.9), gaps.quantile(0.95), gaps.quantile(0.99)};
}

void ServingSample::add(const RequestTimes& times) {
  ttft_.add(to_seconds(times.ttft()));
  tpot_.add(times.tpot_seconds());
  latency_.add(to_seconds(times.latency()));
  queueing_.add(to_seconds(times.queueing()));
  ++count_;
  good_ += objectives_.are_met(times) ? 1 : 0;
  tokens_ += static_cast<double>(times.output_tokens);
  prompt_ += static_cast<double>(times.input_tokens);
  cached_ += static_cast<double>(std::min(times.cached_tokens, times.input_tokens));
}

ServingFigures ServingSample::figures(Picoseconds makespan) const {
  const double seconds = to_seconds(makespan);
  return {.ttft = ttft_.figures(),
          .tpot = tpot_.figures(),
          .latency = latency_.figures(),
          .queueing = queueing_.figures(),
          .requests_per_second = static_cast<double>(count_) / seconds,
          .output_tokens_per_second = tokens_ / seconds,
          .goodput = good_ / seconds,
          .cache_hit_share = cached_ / prompt_};
}

ServingFigures figures_of(const std::vector<RequestTimes>& requests, Picoseconds makespan,
                          const Objectives& objectives) {
  ServingSample sample(objectives);
  for (const RequestTimes& times : requests) sample.add(times);
  return sample.figures(makespan);
}

double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return sorted_quantile(values, share);
}

Interval interval_over_seeds(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  Interval interval{std::accumulate(values.begin(), values.end(), 0.0) / count,
                    std::numeric_limits<double>::quiet_NaN()};
  if (values.size() < 2) return interval;
  double squares = 0;
  for (const double value : values) squares += (value - interval.mean) * (value - interval.mean);
  const boost::math::students_t distribution(count - 1);
  interval.half_width = boost::math::quantile(distribution, 0.975) * std::sqrt(squares / (count - 1) / count);
  return interval;
}

}  // namespace kvtide::serving

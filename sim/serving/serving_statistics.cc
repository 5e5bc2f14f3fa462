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

LatencyFigures latencies(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (values.empty()) return {kNone, kNone, kNone, kNone, kNone};
  std::ranges::sort(values);
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {sum / static_cast<double>(values.size()), sorted_quantile(values, 0.5), sorted_quantile(values, 0.9),
          sorted_quantile(values, 0.95), sorted_quantile(values, 0.99)};
}

}  // namespace

bool Objectives::are_met(const RequestTimes& times) const {
  if (ttft > 0 && to_seconds(times.ttft()) > ttft) return false;
  if (latency > 0 && to_seconds(times.latency()) > latency) return false;
  return !(tpot > 0 && times.output_tokens > 1 && times.tpot_seconds() > tpot);
}

ServingFigures figures_of(const std::vector<RequestTimes>& requests, Picoseconds makespan,
                          const Objectives& objectives) {
  std::vector<double> ttft, tpot, latency, queueing;
  double good = 0, tokens = 0, prompt = 0, cached = 0;
  for (const RequestTimes& times : requests) {
    ttft.push_back(to_seconds(times.ttft()));
    tpot.push_back(times.tpot_seconds());
    latency.push_back(to_seconds(times.latency()));
    queueing.push_back(to_seconds(times.queueing()));
    good += objectives.are_met(times) ? 1 : 0;
    tokens += static_cast<double>(times.output_tokens);
    prompt += static_cast<double>(times.input_tokens);
    cached += static_cast<double>(std::min(times.cached_tokens, times.input_tokens));
  }
  const double seconds = to_seconds(makespan);
  return {.ttft = latencies(std::move(ttft)),
          .tpot = latencies(std::move(tpot)),
          .latency = latencies(std::move(latency)),
          .queueing = latencies(std::move(queueing)),
          .requests_per_second = static_cast<double>(requests.size()) / seconds,
          .output_tokens_per_second = tokens / seconds,
          .goodput = good / seconds,
          .cache_hit_share = cached / prompt};
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

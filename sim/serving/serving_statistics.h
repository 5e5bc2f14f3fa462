#pragma once
// What a serving run means: percentiles of the latencies, and goodput: the requests a second that kept every objective.
//
// Intervals over seeds: the mean of the runs' figures with Student's t at 95 %. Example: TTFT p95 of 3 seeds 1.0, 1.2, 1.1 s: 1.1 s
// +- 4.303 x 0.1 / sqrt(3) = 0.25 s.

#include <cstdint>
#include <string>
#include <vector>

#include "serving/serving_run.h"

namespace kvtide::serving {

/// Seconds; 0: no objective. Each holds for a request on its own.
struct Objectives {
  double ttft = 0, tpot = 0, latency = 0;
  bool operator==(const Objectives&) const = default;
  [[nodiscard]] bool are_met(const RequestTimes& times) const;
};

/// Of one metric over the requests of a run, in seconds. Beyond 200,000 requests quantiles are within 0.1 % (latency_histogram.h).
struct LatencyFigures {
  double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0;
};

struct ServingFigures {
  LatencyFigures ttft, tpot, latency, queueing;
  double requests_per_second = 0, output_tokens_per_second = 0;
  double goodput = 0;          ///< requests/s that met the objectives
  double cache_hit_share = 0;  ///< of prompt tokens
};

/// Values one by one, in a histogram once they are many.
class LatencySample {
 public:
  /// NaN is no value.
  void add(double seconds);
  [[nodiscard]] LatencyFigures figures() const;

 private:
  std::vector<double> values_;
  LatencyHistogram histogram_;
};

/// Figures of requests that are not kept.
class ServingSample {
 public:
  explicit ServingSample(const Objectives& objectives) : objectives_(objectives) {}
  void add(const RequestTimes& times);
  [[nodiscard]] std::int64_t count() const { return count_; }
  /// @pre count() > 0
  [[nodiscard]] ServingFigures figures(Picoseconds makespan) const;

 private:
  Objectives objectives_;
  LatencySample ttft_, tpot_, latency_, queueing_;
  std::int64_t count_ = 0;
  double good_ = 0, tokens_ = 0, prompt_ = 0, cached_ = 0;
};

/// @param requests  at least one
[[nodiscard]] ServingFigures figures_of(const std::vector<RequestTimes>& requests, Picoseconds makespan,
                                        const Objectives& objectives);

/// Of the gaps between tokens of a run.
[[nodiscard]] LatencyFigures figures_of(const LatencyHistogram& gaps);

/// Linear between order statistics, as NumPy's default. @param share  0..1  @param values  not empty
[[nodiscard]] double quantile(std::vector<double> values, double share);

struct Interval {
  double mean = 0;
  double half_width = 0;  ///< 95 %; NaN of a single value
};
/// @param values  of equal runs with different seeds, not empty
[[nodiscard]] Interval interval_over_seeds(const std::vector<double>& values);

}  // namespace kvtide::serving

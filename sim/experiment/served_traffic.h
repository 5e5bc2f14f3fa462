#pragma once
// The workload of a run through its engines, once a seed: figures over the seeds; of the first seed also its requests, the gaps between
// tokens, and the engines over time.

#include <cstdint>
#include <vector>

#include "experiment/experiment.h"
#include "experiment/result.h"
#include "serving/front.h"
#include "serving/serving_run.h"
#include "serving/serving_statistics.h"
#include "serving/step_shape.h"
#include "serving/workload.h"

namespace kvtide::experiment {

class ServedTraffic {
 public:
  /// Reads the workload's file, if it names one. @pre run.setting.serving has a value
  /// @param run  outlives this object  @param limit  tokens of the longest sequence
  /// @throws InputError  the file cannot be read, requests that are too long, arrivals beyond simulated time
  ServedTraffic(const Run& run, std::int64_t limit);

  /// Tokens in the cache of a request half way through its output, its front included: the mean, 16..limit.
  [[nodiscard]] std::int64_t mean_context() const;

  /// Replays every seed and adds the columns and /serving arrays of the traffic. @throws InputError  no request is left
  void serve(const serving::Fleet& fleet, serving::StepTime& step_time, RunResult& result) const;

 private:
  struct Sums;
  void serve_seed(std::int64_t seed, const serving::Fleet& fleet, serving::StepTime& step_time, Sums& sums,
                  RunResult& result) const;

  const Run& run_;
  const ServingSetting& asked_;
  std::int64_t limit_;
  serving::LimitedTrace trace_;  ///< of the file; empty: drawn anew by each seed
  serving::Front front_;
  double mean_own_context_ = 0;  ///< without fronts
};

/// Names the draws of one of the run's seeds.
[[nodiscard]] std::uint64_t draws_of(const Run& run, std::int64_t seed);

}  // namespace kvtide::experiment

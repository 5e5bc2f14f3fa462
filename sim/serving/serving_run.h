#pragma once
// A request trace through one engine: when each request was scheduled, answered and finished.

#include <cstdint>
#include <vector>

#include "serving/engine_settings.h"
#include "serving/request.h"
#include "serving/scheduler.h"
#include "serving/step_shape.h"

namespace kvtide::serving {

struct RequestTimes {
  Picoseconds queued{0}, scheduled{0}, first_token{0}, last_token{0};
  std::int64_t output_tokens = 0;

  [[nodiscard]] Picoseconds ttft() const { return first_token - queued; }
  [[nodiscard]] Picoseconds latency() const { return last_token - queued; }
  /// Mean time between tokens after the first, s; NaN for a single token.
  [[nodiscard]] double tpot_seconds() const;
};

struct ServingOutcome {
  std::vector<RequestTimes> requests;  ///< in the trace's order
  SchedulerCounters counters;
  Picoseconds makespan{0};  ///< first arrival to last token
  std::int64_t max_running = 0;
  double max_used_share = 0;  ///< of the blocks
};

/// Runs until every request has finished. A step begins when the one before has ended; who arrives meanwhile is seen then.
/// @throws InputError for a request that can never run
[[nodiscard]] ServingOutcome serve(const RequestTrace& trace, const EngineSettings& settings, StepTime& step_time);

}  // namespace kvtide::serving

#pragma once
// Requests through one engine: when each was scheduled, answered and finished.
//
// Steps that only decode repeat until something changes: a request finishes, one arrives that could be admitted, or blocks run out.
// Such a run of steps is one event, its duration StepTime::decode_run(). Nothing else is skipped, so the outcome is that of one step
// after another but for the rounding of a picosecond a step.

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "serving/engine_settings.h"
#include "serving/request.h"
#include "serving/request_source.h"
#include "serving/scheduler.h"
#include "serving/serving_series.h"
#include "serving/step_shape.h"

namespace kvtide::serving {

struct RequestTimes {
  Picoseconds queued{0}, scheduled{0}, first_token{0}, last_token{0};
  std::int64_t input_tokens = 0;
  std::int64_t output_tokens = 0;
  std::int64_t cached_tokens = 0;  ///< of the prompt, found in the prefix cache at the first admission
  std::int64_t preemptions = 0;

  [[nodiscard]] Picoseconds ttft() const { return first_token - queued; }
  [[nodiscard]] Picoseconds latency() const { return last_token - queued; }
  [[nodiscard]] Picoseconds queueing() const { return scheduled - queued; }
  /// Mean time between tokens after the first, s; NaN for a single token.
  [[nodiscard]] double tpot_seconds() const;
};

struct ServingOutcome {
  std::vector<RequestTimes> requests;  ///< in order of arrival; empty when they were streamed
  SchedulerCounters counters;
  Picoseconds makespan{0};  ///< first arrival to last token
  std::int64_t num_requests = 0;
  std::int64_t output_tokens = 0;
  std::int64_t max_running = 0;
  double max_used_share = 0;  ///< of the blocks
  ServingSeries series;
};

struct ServeOptions {
  /// Called with each finished request, in order of arrival; then ServingOutcome::requests stays empty.
  std::function<void(const RequestTimes&)> on_request{};
  std::int64_t shared_block_tokens = 0;  ///< of RequestTrace
  /// Longest run of equal steps; 1: one step after another. For tests.
  std::int64_t max_steps_at_once = std::numeric_limits<std::int64_t>::max();
};

/// Runs until the source is exhausted and every request has finished. A step begins when the one before has ended; who arrives
/// meanwhile is seen then. Memory grows with the requests in flight alone when they are streamed.
/// @throws InputError for a request that can never run
[[nodiscard]] ServingOutcome serve(RequestSource& source, const EngineSettings& settings, StepTime& step_time,
                                   const ServeOptions& options = {});
/// A whole trace. @throws InputError
[[nodiscard]] ServingOutcome serve(const RequestTrace& trace, const EngineSettings& settings, StepTime& step_time);

}  // namespace kvtide::serving

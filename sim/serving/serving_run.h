#pragma once
// Requests through a fleet of engines: when each was scheduled, answered and finished.
//
//   one engine                   the usual case
//   several, behind a router     each request stays with the engine it is sent to (data parallelism, replicas)
//   prefill beside decode        some engines compute prompts and the first token; then the cache goes over a link to another engine,
//                                which generates the rest. An engine's link carries one cache at a time; the blocks are free for
//                                others while it does.
//
// Example, disaggregated: a prompt of 1,000 tokens at 1 MB each over 10 GB/s: its second token comes a step after 100 ms.

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "serving/engine_settings.h"
#include "serving/latency_histogram.h"
#include "serving/request.h"
#include "serving/request_ledger.h"
#include "serving/request_source.h"
#include "serving/scheduler.h"
#include "serving/serving_series.h"
#include "serving/step_shape.h"

namespace kvtide::serving {

struct ServingOutcome {
  std::vector<RequestTimes> requests;  ///< in order of arrival; empty when they were streamed
  SchedulerCounters counters;          ///< of all engines
  Picoseconds makespan{0};             ///< first arrival to last token
  std::int64_t num_requests = 0;
  std::int64_t output_tokens = 0;
  std::int64_t max_running = 0;  ///< on one engine
  double max_used_share = 0;     ///< of the blocks of one engine
  ServingSeries series;          ///< sums over the engines
  LatencyHistogram gaps;         ///< between tokens, of all requests
  std::vector<TokenGap>
      kept_gaps;  ///< by request, then token: of the first requests, as many as ServeOptions asked for
  std::int64_t transferred_tokens = 0;  ///< entries that went from prefill to decode engines
  bool is_stopped = false;              ///< ServeOptions::stops_at said so; what had not finished is missing
};

struct ServeOptions {
  /// Called with each finished request, in order of arrival; then ServingOutcome::requests stays empty.
  std::function<void(const RequestTimes&)> on_request{};
  std::int64_t shared_block_tokens = 0;  ///< of RequestTrace
  /// Longest run of equal steps; 1: one step after another. For tests.
  std::int64_t max_steps_at_once = std::numeric_limits<std::int64_t>::max();
  std::size_t most_gaps_kept = 0;  ///< ServingOutcome::kept_gaps
  /// Asked when a request has its first token and (is_last) its last; true ends the run there.
  std::function<bool(const RequestTimes&, bool is_last)> stops_at{};
};

/// How a router chooses an engine.
enum class Routing : std::uint8_t {
  round_robin,   ///< one after the other
  least_loaded,  ///< fewest requests running and waiting; of equals the first
};

struct Fleet {
  EngineSettings engine;  ///< of each
  std::int64_t replicas = 1;
  Routing routing = Routing::round_robin;
  std::int64_t prefill_replicas = 0;  ///< beside the others, which then only decode; 0: every engine does both
  double transfer_latency = 0;        ///< s, before a cache begins to arrive
  double transfer_bandwidth = 0;      ///< B/s out of a prefill engine
  double bytes_per_token = 0;         ///< of the cache, all ranks
};

/// Runs until the source is exhausted and every request has finished. A step begins when the one before has ended; who arrives
/// meanwhile is seen then. Memory grows with the requests in flight alone when they are streamed.
/// @throws InputError for a request that can never run, or a fleet that has no engines or no link between them
[[nodiscard]] ServingOutcome serve(RequestSource& source, const Fleet& fleet, StepTime& step_time,
                                   const ServeOptions& options = {});
/// One engine.
[[nodiscard]] ServingOutcome serve(RequestSource& source, const EngineSettings& settings, StepTime& step_time,
                                   const ServeOptions& options = {});
/// A whole trace. @throws InputError
[[nodiscard]] ServingOutcome serve(const RequestTrace& trace, const EngineSettings& settings, StepTime& step_time);

}  // namespace kvtide::serving

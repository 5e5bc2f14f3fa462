#pragma once
// What is known of the requests in flight, whichever engines they pass through, and of the gaps between their tokens; told in order
// of arrival. Memory grows with the requests in flight alone when they are streamed.

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "base/units.h"
#include "serving/latency_histogram.h"
#include "serving/request.h"

namespace kvtide::serving {

struct RequestTimes {
  Picoseconds queued{0}, scheduled{0}, first_token{0}, last_token{0};
  Picoseconds longest_gap{0};  ///< between two of its tokens; 0 for a single token
  std::int64_t input_tokens = 0;
  std::int64_t output_tokens = 0;
  std::int64_t cached_tokens = 0;  ///< of the prompt, found in the prefix cache at the first admission
  std::int64_t preemptions = 0;
  std::int64_t priority = 0;

  [[nodiscard]] Picoseconds ttft() const { return first_token - queued; }
  [[nodiscard]] Picoseconds latency() const { return last_token - queued; }
  [[nodiscard]] Picoseconds queueing() const { return scheduled - queued; }
  /// Mean time between tokens after the first, s; NaN for a single token.
  [[nodiscard]] double tpot_seconds() const;
};

/// A token after the first and the time since the one before it (ITL).
struct TokenGap {
  std::int64_t request = 0;  ///< by arrival
  std::int64_t token = 0;    ///< from 1
  double seconds = 0;
};

/// Steps one after another that take about as long as each other.
struct EqualSteps {
  std::int64_t count = 1;
  Picoseconds duration{0};  ///< of all of them
  [[nodiscard]] Picoseconds each() const { return duration / count; }
};

class RequestLedger {
 public:
  /// A finished request.
  using Report = std::function<void(const RequestTimes&)>;

  /// @param report  called in order of arrival; outlives this object  @param most_gaps  kept one by one, of the first requests
  RequestLedger(const Report& report, std::size_t most_gaps) : report_(report), most_gaps_(most_gaps) {}

  /// @return its number: 0, 1, ... in order of arrival
  std::size_t arrive(Picoseconds now, const Request& request);
  /// Admitted by an engine, for the first time or again after a preemption.
  void on_scheduled(std::size_t request, Picoseconds now, std::int64_t cached_tokens, bool is_again);
  /// What on_tokens() tells of from now on: a step, or several in which the same requests generate a token each.
  void on_steps(Picoseconds begin, std::span<const EqualSteps> steps);
  /// A token generated in each of those steps. @return whether it is the first; several steps hold none
  bool on_tokens(std::size_t request);
  /// Its last token was generated now.
  void on_finish(std::size_t request, Picoseconds now);
  /// Tells of all that nobody in flight arrived before.
  void report_finished();

  [[nodiscard]] const RequestTimes& times(std::size_t request) const {
    return in_flight_[request - num_reported_].times;
  }
  [[nodiscard]] std::size_t num_arrived() const { return num_arrived_; }
  [[nodiscard]] Picoseconds first_arrival() const { return first_arrival_; }
  /// Of all tokens so far.
  [[nodiscard]] const LatencyHistogram& gaps();
  [[nodiscard]] std::vector<TokenGap>& kept_gaps() { return kept_gaps_; }

 private:
  struct InFlight {
    RequestTimes times;
    std::int64_t num_tokens = 0;
    bool is_finished = false;
  };
  InFlight& in_flight(std::size_t request) { return in_flight_[request - num_reported_]; }

  const Report& report_;
  std::size_t most_gaps_;
  std::size_t gaps_asked_ = 0;      // of all requests so far
  std::size_t requests_kept_ = 0;   // whose gaps are kept
  std::deque<InFlight> in_flight_;  // from request num_reported_ on
  std::size_t num_reported_ = 0;
  std::size_t num_arrived_ = 0;
  Picoseconds first_arrival_{0};
  void count_gaps();

  LatencyHistogram gaps_;
  // The present steps, and who has a token of each; those of the first step that had waited before it are in gaps_ already.
  std::vector<EqualSteps> steps_;
  Picoseconds steps_begin_{0}, steps_end_{0}, longest_step_{0};
  std::int64_t num_steps_ = 0, num_with_tokens_ = 0, num_late_ = 0;
  std::vector<TokenGap> kept_gaps_;
};

}  // namespace kvtide::serving

#include "serving/request_ledger.h"

#include <algorithm>

namespace kvtide::serving {

double RequestTimes::tpot_seconds() const {
  return output_tokens > 1 ? to_seconds(last_token - first_token) / static_cast<double>(output_tokens - 1)
                           : std::numeric_limits<double>::quiet_NaN();
}

std::size_t RequestLedger::arrive(Picoseconds now, const Request& request) {
  InFlight added;
  added.times.queued = now;
  added.times.scheduled = Picoseconds{-1};
  added.times.input_tokens = request.input_tokens;
  added.times.output_tokens = request.output_tokens;
  added.times.priority = request.priority;
  in_flight_.push_back(added);
  if (num_arrived_ == 0) first_arrival_ = now;
  gaps_asked_ += static_cast<std::size_t>(request.output_tokens - 1);
  if (gaps_asked_ <= most_gaps_) requests_kept_ = num_arrived_ + 1;
  return num_arrived_++;
}

void RequestLedger::on_scheduled(std::size_t request, Picoseconds now, std::int64_t cached_tokens, bool is_again) {
  RequestTimes& times = in_flight(request).times;
  if (is_again) ++times.preemptions;
  if (times.scheduled >= Picoseconds{0}) return;
  times.scheduled = now;
  times.cached_tokens = cached_tokens;
}

void RequestLedger::on_steps(Picoseconds begin, std::span<const EqualSteps> steps) {
  count_gaps();
  steps_.assign(steps.begin(), steps.end());
  steps_begin_ = steps_end_ = begin;
  longest_step_ = Picoseconds{0};
  num_steps_ = 0;
  for (const EqualSteps& equal : steps) {
    steps_end_ += equal.duration;
    num_steps_ += equal.count;
    longest_step_ = std::max(longest_step_, equal.each());
  }
}

bool RequestLedger::on_tokens(std::size_t request) {
  InFlight& one = in_flight(request);
  const bool is_first = one.num_tokens == 0;
  if (is_first) {
    one.times.first_token = steps_end_;
  } else {
    // Whoever had no token in the step before, as another's prompt was computed, waits for longer than the step.
    const Picoseconds waited = steps_begin_ - one.times.last_token;
    const Picoseconds first_gap = waited + steps_.front().each();
    ++num_with_tokens_;
    if (waited > Picoseconds{0}) {
      ++num_late_;
      gaps_.add(to_seconds(first_gap));
    }
    one.times.longest_gap = std::max({one.times.longest_gap, first_gap, longest_step_});
    if (request < requests_kept_) {
      std::int64_t token = one.num_tokens;
      for (const EqualSteps& equal : steps_) {
        for (std::int64_t i = 0; i < equal.count; ++i, ++token) {
          const Picoseconds gap = token == one.num_tokens ? first_gap : equal.each();
          kept_gaps_.push_back({static_cast<std::int64_t>(request), token, to_seconds(gap)});
        }
      }
    }
  }
  one.num_tokens += num_steps_;
  one.times.last_token = steps_end_;
  return is_first;
}

void RequestLedger::count_gaps() {
  for (const EqualSteps& equal : steps_) {
    const std::int64_t count = equal.count * num_with_tokens_ - (&equal == steps_.data() ? num_late_ : 0);
    if (count > 0) gaps_.add(to_seconds(equal.each()), count);
  }
  num_with_tokens_ = num_late_ = 0;
}

const LatencyHistogram& RequestLedger::gaps() {
  count_gaps();
  return gaps_;
}

void RequestLedger::on_finish(std::size_t request, Picoseconds now) {
  InFlight& one = in_flight(request);
  one.times.last_token = now;
  one.is_finished = true;
}

void RequestLedger::report_finished() {
  while (!in_flight_.empty() && in_flight_.front().is_finished) {
    report_(in_flight_.front().times);
    in_flight_.pop_front();
    ++num_reported_;
  }
}

}  // namespace kvtide::serving

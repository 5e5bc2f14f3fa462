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

bool RequestLedger::on_tokens(std::size_t request, Picoseconds now, std::int64_t tokens) {
  InFlight& one = in_flight(request);
  const bool is_first = one.num_tokens == 0;
  std::int64_t gaps = tokens;
  Picoseconds before = one.times.last_token;
  if (is_first) {
    one.times.first_token = now;  // a run of steps never holds a first token
    --gaps;
    before = now;
  }
  if (gaps > 0) {
    // Steps of one run lengthen by less than a thousandth each: every gap is the mean.
    const Picoseconds gap = gaps == 1 ? now - before : (now - before) / gaps;
    if (gap == equal_gap_) {
      num_equal_ += gaps;
    } else {
      count(gap, gaps);
    }
    one.times.longest_gap = std::max(one.times.longest_gap, gap);
    if (request < requests_kept_) {
      for (std::int64_t i = 0; i < gaps; ++i) {
        kept_gaps_.push_back({static_cast<std::int64_t>(request), one.num_tokens + i, to_seconds(gap)});
      }
    }
  }
  one.num_tokens += tokens;
  one.times.last_token = now;
  return is_first;
}

void RequestLedger::count(Picoseconds gap, std::int64_t num_gaps) {
  if (num_equal_ > 0) gaps_.add(to_seconds(equal_gap_), num_equal_);
  equal_gap_ = gap;
  num_equal_ = num_gaps;
}

const LatencyHistogram& RequestLedger::gaps() {
  count(Picoseconds{0}, 0);
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

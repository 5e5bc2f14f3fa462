#include "serving/request_source.h"

namespace kvtide::serving {

TraceSource::TraceSource(const RequestTrace& trace, std::int64_t repeats, Picoseconds gap)
    : trace_(trace), repeats_(repeats), period_(trace.requests.back().arrival + gap) {}

std::optional<Picoseconds> TraceSource::next_arrival() const {
  if (copy_ == repeats_) return std::nullopt;
  return trace_.requests[next_].arrival + copy_ * period_;
}

Request TraceSource::take() {
  Request request = trace_.requests[next_];
  request.arrival += copy_ * period_;
  for (std::uint64_t& id : request.shared_blocks) id += static_cast<std::uint64_t>(copy_) << 40;
  if (++next_ == trace_.requests.size()) {
    next_ = 0;
    ++copy_;
  }
  return request;
}

}  // namespace kvtide::serving

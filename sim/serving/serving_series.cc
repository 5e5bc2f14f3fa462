#include "serving/serving_series.h"

#include <algorithm>

namespace kvtide::serving {
namespace {

void add_to(SeriesInterval& sum, const SeriesInterval& more) {
  sum.busy_seconds += more.busy_seconds;
  sum.running += more.running;
  sum.waiting += more.waiting;
  sum.used_blocks += more.used_blocks;
  sum.used_tokens += more.used_tokens;
  sum.output_tokens += more.output_tokens;
  sum.prompt_tokens += more.prompt_tokens;
}

}  // namespace

ServingSeries::ServingSeries(Picoseconds interval) : interval_(interval) {}

std::size_t ServingSeries::last_interval(Picoseconds end) {
  while ((end - Picoseconds{1}) / interval_ >= static_cast<std::int64_t>(kMaxIntervals)) {
    for (std::size_t i = 0; i < intervals_.size(); ++i) {
      if (i % 2 == 0) {
        intervals_[i / 2] = intervals_[i];
      } else {
        add_to(intervals_[i / 2], intervals_[i]);
      }
    }
    intervals_.resize((intervals_.size() + 1) / 2);
    interval_ *= 2;
  }
  const auto last = static_cast<std::size_t>((end - Picoseconds{1}) / interval_);
  if (intervals_.size() <= last) intervals_.resize(last + 1);
  return last;
}

void ServingSeries::add_waiting(Picoseconds begin, Picoseconds end) {
  if (begin >= end) return;
  const std::size_t last = last_interval(end);
  for (auto index = static_cast<std::size_t>(begin / interval_); index <= last; ++index) {
    const Picoseconds from = std::max(begin, static_cast<std::int64_t>(index) * interval_);
    const Picoseconds to = index == last ? end : static_cast<std::int64_t>(index + 1) * interval_;
    intervals_[index].waiting += to_seconds(to - from);
  }
}

void ServingSeries::add(Picoseconds begin, Picoseconds end, const SeriesState& state) {
  const std::size_t last = last_interval(end);
  const double whole = to_seconds(end - begin);
  for (auto index = static_cast<std::size_t>(begin / interval_); index <= last; ++index) {
    const Picoseconds from = std::max(begin, static_cast<std::int64_t>(index) * interval_);
    const Picoseconds to = index == last ? end : static_cast<std::int64_t>(index + 1) * interval_;
    const double seconds = to_seconds(to - from);
    const double place = (to_seconds(from - begin) + to_seconds(to - begin)) / (2 * whole);  // of the middle
    const auto between = [&](double first, double last) { return first + place * (last - first); };
    add_to(intervals_[index], {.busy_seconds = seconds,
                               .running = seconds * static_cast<double>(state.running),
                               .waiting = seconds * static_cast<double>(state.waiting),
                               .used_blocks = seconds * between(state.used_blocks, state.used_blocks_at_end),
                               .used_tokens = seconds * between(state.used_tokens, state.used_tokens_at_end),
                               .output_tokens = seconds / whole * static_cast<double>(state.output_tokens),
                               .prompt_tokens = seconds / whole * static_cast<double>(state.prompt_tokens)});
  }
}

}  // namespace kvtide::serving

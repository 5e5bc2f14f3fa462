#pragma once
// What the engine did over time, in a bounded number of equal intervals: when a run outlasts them, neighbours are merged and the
// intervals twice as long.
//
// Example: 4 intervals of 1 s; activity at 4.5 s merges them to 2 of 2 s and opens the third.

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace kvtide::serving {

/// Means over an interval are sums divided by `busy_seconds` (engine at work) or the interval.
struct SeriesInterval {
  double busy_seconds = 0;
  double running = 0;      ///< sequences x s
  double waiting = 0;      ///< requests x s
  double used_blocks = 0;  ///< blocks x s
  double used_tokens = 0;  ///< tokens in the cache x s
  double output_tokens = 0;
  double prompt_tokens = 0;  ///< computed, recomputation included
};

/// The state during one step, or several that take about as long as each other; what is used changes from the first to the last.
struct SeriesState {
  std::int64_t running = 0, waiting = 0;
  double used_blocks = 0, used_tokens = 0;
  double used_blocks_at_end = 0, used_tokens_at_end = 0;
  std::int64_t output_tokens = 0, prompt_tokens = 0;  ///< in all steps
};

class ServingSeries {
 public:
  static constexpr std::size_t kMaxIntervals = 512;
  explicit ServingSeries(Picoseconds interval = Picoseconds{1'000'000'000'000});

  /// @param end  > begin
  void add(Picoseconds begin, Picoseconds end, const SeriesState& state);
  /// One request more in line, that came during a step.
  void add_waiting(Picoseconds begin, Picoseconds end);

  [[nodiscard]] Picoseconds interval() const { return interval_; }
  [[nodiscard]] const std::vector<SeriesInterval>& intervals() const { return intervals_; }

 private:
  /// That `end` falls into, with room for it.
  std::size_t last_interval(Picoseconds end);

  Picoseconds interval_;
  std::vector<SeriesInterval> intervals_;
};

}  // namespace kvtide::serving

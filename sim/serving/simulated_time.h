#pragma once
// Picoseconds in 64 bits hold 106 days: a workload that goes on for longer is refused where it gets there.

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"

namespace kvtide::serving {

inline constexpr double kMaxSeconds = 9e6;

/// When what begins at `now` ends. @throws InputError  beyond kMaxSeconds
[[nodiscard]] inline Picoseconds end_of(Picoseconds now, Picoseconds duration) {
  const double seconds = to_seconds(now) + to_seconds(duration);
  if (!(seconds <= kMaxSeconds)) {
    throw InputError(fmt::format(
        "workload: requests are still served after {:.3g} s, simulated time ends at {:.0e} s: expected fewer "
        "or shorter requests, or more engines",
        seconds, kMaxSeconds));
  }
  return now + duration;
}

}  // namespace kvtide::serving

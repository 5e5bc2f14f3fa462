#pragma once
// What the requests of a replay lived through.

#include <cstdint>
#include <string>

#include "planning/plan.h"

namespace kvtide::planning {

/// Percentiles 50, 90, 95, 99 in seconds.
struct Latencies {
  double p50 = 0, p90 = 0, p95 = 0, p99 = 0;
  [[nodiscard]] double at(std::int64_t percentile) const;
};

struct Experience {
  Latencies ttft, tpot, latency;  ///< NaN where the replay was stopped
  double used_share = 0;          ///< most, of the KV pages
  std::int64_t preemptions = 0, max_running = 0, requests = 0;
  std::string broken;  ///< the first objective that is not kept; empty: all are

  [[nodiscard]] const Latencies& of(Metric metric) const;
  [[nodiscard]] bool is_good() const { return broken.empty(); }
};

/// As objectives and latencies are shown, in ms: three significant digits, from 100 on whole. 0.0625 -> "62.5", 9.321 -> "9321".
[[nodiscard]] std::string milliseconds_text(double seconds);

}  // namespace kvtide::planning

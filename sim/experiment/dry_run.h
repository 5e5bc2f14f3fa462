#pragma once
// What `--dry-run` prints: the expanded runs, and how much memory and time they will take. Nothing is computed.

#include <cstdint>
#include <functional>
#include <string>

#include "experiment/experiment.h"

namespace kvtide::experiment {

struct RunCost {
  double seconds = 0;  ///< of one core
  double bytes = 0;    ///< of memory while it runs
};

/// Approximation: within a factor of three on one core of a current machine. Counts the work that dominates: scoring
/// and measuring touch layers x heads x queries x tokens, a prefix scan repeats that for 2 * block_size shifts, the
/// machine part walks the served cache's blocks. Example: 2,052 recorded tokens without a prefix scan -> well under a
/// second.
[[nodiscard]] RunCost estimate_cost(const Run& run);

struct DryRunOptions {
  std::int64_t jobs = 1;
  bool as_json = false;
  std::int64_t max_rows = 50;  ///< of the human table; JSON holds all
};

[[nodiscard]] std::string dry_run_text(const Experiment& experiment, const DryRunOptions& options,
                                       const std::function<RunCost(const Run&)>& cost = estimate_cost);

}  // namespace kvtide::experiment

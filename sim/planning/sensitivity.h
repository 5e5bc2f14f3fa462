#pragma once
// Which assumption flips the decision: each varied by 20 % either way, the contenders judged again.
//
// Contenders are the best candidate of each GPU type and policy, the first few of them in the plan's order: what a 20 % change could
// bring to the front. Prices need no new replay. What decides nothing (memory overhead beside a given number of blocks) is not varied.

#include <string>
#include <vector>

#include "planning/plan_search.h"

namespace kvtide::planning {

struct Variation {
  std::string assumption;  ///< "output length", "price of l40s"
  double factor = 1;       ///< 0.8 or 1.2
  std::int64_t best = -1;  ///< index of the candidate chosen then; -1: none is possible
  double value = 0;        ///< of the goal: USD/h, GPUs or requests/s; NaN: none
  bool flips = false;      ///< another GPU type, number of ranks or policy than the plan's choice
};

inline constexpr double kVariation = 0.2;

/// Empty when the plan has no choice. @throws InputError
[[nodiscard]] std::vector<Variation> vary_assumptions(const Plan& plan, const PlanOutcome& outcome,
                                                      const SearchOptions& options);

}  // namespace kvtide::planning

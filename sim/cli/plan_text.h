#pragma once
// A plan's outcome as text and as JSON.

#include <cstddef>
#include <string>
#include <vector>

#include "planning/plan_search.h"
#include "planning/sensitivity.h"

namespace kvtide::cli {

/// Whether the cache is the limit, what to buy and set, what it would cost uncompressed, what it loses.
[[nodiscard]] std::string plan_verdict(const planning::Plan& plan, const planning::PlanOutcome& outcome);

/// Candidates that keep everything, best first, then why the others do not. @param most_rows  of each part
[[nodiscard]] std::string plan_table(const planning::Plan& plan, const planning::PlanOutcome& outcome,
                                     std::size_t most_rows);

/// What flips when an assumption is wrong by a fifth. Empty for no variations.
[[nodiscard]] std::string sensitivity_text(const planning::Plan& plan, const planning::PlanOutcome& outcome,
                                           const std::vector<planning::Variation>& variations);

/// Sampling, prices with their dates, bounds: what the figures rest on.
[[nodiscard]] std::string plan_basis(const planning::Plan& plan, const planning::PlanOutcome& outcome);

[[nodiscard]] std::string plan_json(const planning::Plan& plan, const planning::PlanOutcome& outcome,
                                    const std::vector<planning::Variation>& variations);

}  // namespace kvtide::cli

#pragma once
// A plan's outcome as HDF5 that xarray opens: /candidates over `candidate`, /policies over `policy`, /sensitivity over `variation`.

#include <string>
#include <vector>

#include "planning/plan_search.h"
#include "planning/sensitivity.h"

namespace kvtide::planning {

/// @throws EnvironmentError
void write_plan(const std::string& path, const Plan& plan, const PlanOutcome& outcome,
                const std::vector<Variation>& variations, const std::string& verdict);

}  // namespace kvtide::planning

#pragma once
// A parsed plan file -> its plan.

#include <string>

#include "config/yaml_value.h"
#include "planning/plan.h"

namespace kvtide::planning {

/// Errors are recorded in the document; with some the plan is not whole.
[[nodiscard]] Plan read_plan(const config::Document& document, const std::string& path, const std::string& base_folder);

}  // namespace kvtide::planning

#pragma once
// The keys of a plan file as its reader asks for them: docs/plan.md is compared with them.

#include <string>
#include <vector>

#include "config/yaml_value.h"

namespace kvtide::planning {

/// Of a file with every key, in the order of asking; once each.
[[nodiscard]] std::vector<config::AskedKey> plan_keys();

/// How a table has it. Example: "| `plan.peak` | number, 1..1000 | 1 |".
[[nodiscard]] std::string table_cells(const config::AskedKey& key);

}  // namespace kvtide::planning

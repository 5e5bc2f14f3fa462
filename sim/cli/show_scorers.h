#pragma once
// `kvtide show scorers [NAME]`.

#include <string>

namespace kvtide::cli {

/// @param name  empty: all, a line each; else with its parameters
/// @param as_json  one JSON document instead of a table
void show_scorers(const std::string& name, bool as_json);

}  // namespace kvtide::cli

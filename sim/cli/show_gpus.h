#pragma once
// `kvtide show gpus [NAME or profile.yaml]`.

#include <string>

namespace kvtide::cli {

/// @param name  empty: all, a line each; else every fact with its source
/// @param as_json  one JSON document instead of a table
void show_gpus(const std::string& name, bool as_json);

}  // namespace kvtide::cli

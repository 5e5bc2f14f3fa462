#pragma once
// `kvtide show models [NAME or config.json]`.

#include <string>

namespace kvtide::cli {

/// Prints every shipped model, or one with all its layers.
/// @param name  empty: all  @param as_json  one JSON document instead of tables
void show_models(const std::string& name, bool as_json);

}  // namespace kvtide::cli

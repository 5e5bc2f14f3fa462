#pragma once
// The experiment file's format as a JSON Schema (draft 7), for editors and for people's own checks.
//
// It is not written down anywhere: small example files that walk through every branch of the format are read by the
// reader itself, which remembers each key it asks for with its type, range, choices and default.

#include <string>

namespace kvtide::experiment {

/// @return one JSON document, indented by two
[[nodiscard]] std::string experiment_schema();

}  // namespace kvtide::experiment

#pragma once
// Runs the Python package that draws: kvtide_analysis.

#include <string>
#include <vector>

namespace kvtide::cli {

/// `python -m kvtide_analysis arguments...` with the package of this source or installation on its path; waits for it.
/// Interpreter: $KVTIDE_PYTHON, else /usr/bin/python3.
/// @return its exit code @throws EnvironmentError when it cannot be started
[[nodiscard]] int run_analysis(const std::vector<std::string>& arguments);

}  // namespace kvtide::cli

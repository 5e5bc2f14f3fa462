#pragma once
// Which build this is.

#include <string>

namespace kvtide::cli {

/// "kvtide 0.1.0 (commit abc1234)" and the versions it was built with, one a line.
[[nodiscard]] std::string version_text();

}  // namespace kvtide::cli

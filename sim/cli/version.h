#pragma once
// Which build this is.

#include <string>

namespace kvtide::cli {

/// Three lines: "kvtide 0.1.0 (commit abc1234)"; build type, system and compiler; the libraries it was built with.
[[nodiscard]] std::string version_text();

}  // namespace kvtide::cli

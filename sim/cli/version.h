#pragma once
// Which build this is.

#include <string>

namespace kvtide::cli {

/// Three lines: "kvtide 0.1.0 (commit abc1234)"; build type, system and compiler; the libraries it was built with.
[[nodiscard]] std::string version_text();

/// "0.1.0 abc1234": version and commit; results of another build may differ.
[[nodiscard]] std::string build_name();

}  // namespace kvtide::cli

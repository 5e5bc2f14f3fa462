#pragma once
// What `kvtide run` prints when it is done: one row a run, readable without the manual, and the worst run's phase
// profile.

#include <string>

namespace kvtide::cli {

/// @param path  a finished results file
/// @param use_color  ANSI colours for the plot
[[nodiscard]] std::string run_summary_text(const std::string& path, bool use_color);

/// The summary columns as one JSON document: {"file", "runs": [{column: value}]}; NaN is null.
[[nodiscard]] std::string run_summary_json(const std::string& path);

}  // namespace kvtide::cli

#pragma once
// Progress of a long job on stderr: a moving line with ETA on a terminal, else one line every 10 s.

#include <chrono>
#include <string>
#include <string_view>

#include "experiment/executor.h"

namespace kvtide::cli {

class ProgressLine {
 public:
  explicit ProgressLine(bool is_quiet);
  ~ProgressLine();  ///< ends a moving line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// @param what  is counted: "3 of 10 runs, 0:12, about 0:28 left"
  void show(const experiment::Progress& progress, std::string_view what = "runs");

 private:
  bool is_quiet_;
  bool is_terminal_;
  bool has_line_ = false;
  std::chrono::steady_clock::time_point last_;
};

/// "1:05" of 65.2 seconds, "2:00:00" of two hours.
[[nodiscard]] std::string format_duration(double seconds);

}  // namespace kvtide::cli

#include "cli/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace kvtide::cli {

std::string format_duration(double seconds) {
  const auto whole = static_cast<long long>(std::llround(seconds));
  return whole >= 3600 ? fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
                       : fmt::format("{}:{:02}", whole / 60, whole % 60);
}

ProgressLine::ProgressLine(bool is_quiet)
    : is_quiet_(is_quiet), is_terminal_(::isatty(STDERR_FILENO) == 1), last_(std::chrono::steady_clock::now()) {}

ProgressLine::~ProgressLine() {
  if (has_line_) fmt::print(stderr, "\r\033[K");
}

void ProgressLine::show(const experiment::Progress& progress, std::string_view what) {
  if (is_quiet_) return;
  const auto now = std::chrono::steady_clock::now();
  if (!is_terminal_ && now - last_ < std::chrono::seconds(10)) return;
  last_ = now;
  const std::string remaining =
      progress.remaining_seconds ? ", about " + format_duration(*progress.remaining_seconds) + " left" : "";
  const std::string failed = progress.failed > 0 ? fmt::format(", {} failed", progress.failed) : "";
  const std::string line = fmt::format("{} of {} {}{}, {}{}", progress.done, progress.total, what, failed,
                                       format_duration(progress.elapsed_seconds), remaining);
  if (is_terminal_) {
    fmt::print(stderr, "\r\033[K{}", line);
    std::fflush(stderr);
    has_line_ = true;
  } else {
    fmt::print(stderr, "{}\n", line);
  }
}

}  // namespace kvtide::cli

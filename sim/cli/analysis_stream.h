#pragma once
// Runs the Python package while reading what it prints, line by line.

#include <string>
#include <vector>

namespace kvtide::cli {

class AnalysisStream {
 public:
  /// Starts `python -m kvtide_analysis arguments...`. @throws EnvironmentError when it cannot be started
  AnalysisStream(const std::string& python, const std::vector<std::string>& arguments);
  /// Ends the program, should it still run, and waits for it.
  ~AnalysisStream();
  AnalysisStream(const AnalysisStream&) = delete;
  AnalysisStream& operator=(const AnalysisStream&) = delete;

  /// The next line without its end. @return false at the end of the output
  [[nodiscard]] bool next_line(std::string& line);
  /// Waits for the program. @return its exit code
  [[nodiscard]] int finish();

 private:
  int child_ = -1;
  int output_ = -1;
  std::string unread_;
};

}  // namespace kvtide::cli

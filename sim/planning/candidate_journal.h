#pragma once
// Candidates judged so far, a line each, so that an interrupted plan goes on where it stopped.
//
// A line counts when it is whole and its key is that of the candidate asked for: the content of model, GPU, trace and requests, the
// plan's text and its overrides, and the build of kvtide. Anything else is judged again.

#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "planning/plan_search.h"

namespace kvtide::planning {

class CandidateJournal {
 public:
  /// @param keeps  false: what lies there is of another plan and is replaced  @throws EnvironmentError
  CandidateJournal(const std::string& path, bool keeps);

  /// Fills in what was found of `candidate`. @return false: nothing is known
  [[nodiscard]] bool restore(std::uint64_t key, Candidate& candidate) const;
  /// @throws EnvironmentError
  void add(std::uint64_t key, const Candidate& candidate);
  [[nodiscard]] std::size_t size() const { return lines_.size(); }

 private:
  std::string path_;
  std::map<std::uint64_t, std::string> lines_;
  std::ofstream file_;
};

/// "0 1 2 reason": every figure a search finds, in an order of its own. Round trips exactly.
[[nodiscard]] std::string journal_text(const Candidate& candidate);
/// False when the text is cut short or is none.
[[nodiscard]] bool read_journal_text(const std::string& text, Candidate& candidate);

}  // namespace kvtide::planning

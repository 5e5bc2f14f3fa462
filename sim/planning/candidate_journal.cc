#include "planning/candidate_journal.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <sstream>

#include "base/error.h"

namespace kvtide::planning {
namespace {

constexpr std::size_t kMaxLines = 200'000;

/// Calls visit(number) for every figure, in the order of the text.
template <typename One, typename Visit>
void visit_integers(One& one, const Visit& visit) {
  visit(one.needed);
  visit(one.replicas);
  visit(one.num_gpus);
  visit(one.kv_tokens);
  visit(one.longest_context);
  visit(one.experience.preemptions);
  visit(one.experience.max_running);
  visit(one.experience.requests);
}
template <typename One, typename Visit>
void visit_numbers(One& one, const Visit& visit) {
  visit(one.usd_per_hour);
  visit(one.rate);
  visit(one.experience.used_share);
  for (auto* latencies : {&one.experience.ttft, &one.experience.tpot, &one.experience.latency}) {
    visit(latencies->p50);
    visit(latencies->p90);
    visit(latencies->p95);
    visit(latencies->p99);
  }
}

}  // namespace

std::string journal_text(const Candidate& candidate) {
  std::string text = candidate.is_feasible ? "1" : "0";
  visit_integers(candidate, [&](std::int64_t value) { text += fmt::format(" {}", value); });
  visit_numbers(candidate, [&](double value) { text += std::isnan(value) ? " nan" : fmt::format(" {}", value); });
  std::string reason = candidate.reason;
  for (char& c : reason) {
    if (c == '\n') c = ' ';
  }
  return text + " |" + reason + "|";
}

bool read_journal_text(const std::string& text, Candidate& candidate) {
  const std::size_t begin = text.find('|');
  if (begin == std::string::npos || text.size() < begin + 2 || text.back() != '|') return false;
  std::istringstream words(text.substr(0, begin));
  bool is_whole = true;
  const auto read = [&](auto& value) {
    std::string word;
    if (!(words >> word)) {
      is_whole = false;
      return;
    }
    if constexpr (std::is_floating_point_v<std::remove_reference_t<decltype(value)>>) {
      if (word == "nan") {
        value = std::nan("");
        return;
      }
    }
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || rest != word.data() + word.size()) is_whole = false;
  };
  Candidate restored = candidate;
  int is_feasible = 0;
  read(is_feasible);
  visit_integers(restored, read);
  visit_numbers(restored, read);
  std::string more;
  if (!is_whole || words >> more) return false;
  restored.is_feasible = is_feasible == 1;
  restored.reason = text.substr(begin + 1, text.size() - begin - 2);
  candidate = restored;
  return true;
}

CandidateJournal::CandidateJournal(const std::string& path, bool keeps) : path_(path) {
  if (keeps) {
    std::ifstream before(path);
    std::string line;
    while (lines_.size() < kMaxLines && std::getline(before, line)) {
      std::uint64_t key = 0;
      const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), key, 16);
      if (error == std::errc{} && rest != line.data() + line.size() && *rest == ' ') {
        lines_[key] = line.substr(static_cast<std::size_t>(rest - line.data()) + 1);
      }
    }
  }
  file_.open(path, keeps ? std::ios::app : std::ios::trunc);
  // A line that a kill cut short must not swallow the next one.
  if (keeps) file_ << "\n" << std::flush;
  if (!file_) throw EnvironmentError(fmt::format("{}: cannot be written", path));
}

bool CandidateJournal::restore(std::uint64_t key, Candidate& candidate) const {
  const auto found = lines_.find(key);
  return found != lines_.end() && read_journal_text(found->second, candidate);
}

void CandidateJournal::add(std::uint64_t key, const Candidate& candidate) {
  file_ << fmt::format("{:016x} {}\n", key, journal_text(candidate)) << std::flush;
  if (!file_) throw EnvironmentError(fmt::format("{}: cannot be written (disk full?)", path_));
}

}  // namespace kvtide::planning

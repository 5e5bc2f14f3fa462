#include "kv/compression/scorer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/data_directory.h"
#include "base/error.h"
#include "kv/compression/attention_sum_scorer.h"

namespace kvtide::kv {

const std::vector<ScorerEntry>& scorers() {
  static const std::vector<ScorerEntry> table{
      {"attention_sum", "softmax mass received from the last score_window queries, summed over the group",
       "arXiv 2306.14048", &attention_sum_scores},
  };
  return table;
}

const ScorerEntry& find_scorer(const std::string& name) {
  std::vector<std::string> known;
  for (const ScorerEntry& entry : scorers()) {
    if (entry.name == name) return entry;
    known.push_back(entry.name);
  }
  const std::string nearest = nearest_name(name, known);
  throw InputError(fmt::format("unknown scorer \"{}\"{} (known: {})", name,
                               nearest.empty() ? "" : ", did you mean " + nearest + "?", fmt::join(known, ", ")));
}

}  // namespace kvtide::kv

#pragma once
// Importance of each cached position, from recorded numbers. One scorer a file; registered by name in one table.

#include <memory>
#include <string>
#include <vector>

#include "kv/compression/compression.h"

namespace kvtide::kv {

struct ScorerContext {
  std::int64_t num_positions;  ///< positions to score, 0..num_positions-1
  std::int64_t
      score_window;  ///< last queries before num_positions that may be used (causal: they see only what precedes)
};

struct ScorerEntry {
  std::string name;
  std::string summary;
  std::string paper;
  LayerScores (*score)(const LayerTensors& layer, const ScorerContext& context);
};

/// Every scorer, sorted by name.
[[nodiscard]] const std::vector<ScorerEntry>& scorers();
/// @throws InputError naming the nearest when unknown
[[nodiscard]] const ScorerEntry& find_scorer(const std::string& name);

}  // namespace kvtide::kv

#pragma once
// Choices that are not simply the best positions anywhere, turned into scores whose best positions are the choice. So
// every reader of scores (the cache, the scans, the served geometry) follows them without knowing how they were made.
//
// Example, quota: blocks of 4, keep 0.5, scores 9 8 7 6 | 1 2 3 4: each block keeps its own best two, 0 1 and 6 7.

#include "kv/compression/scorer.h"

namespace kvtide::kv {

/// @param setting  its grid says where blocks begin
/// @param stage    with a selection other than the best anywhere
/// @param rescore  empty: a position's score does not depend on the others
[[nodiscard]] LayerScores selected_scores(const Compression& setting, const Evict& stage, const LayerScores& scores,
                                          const Rescore& rescore);

}  // namespace kvtide::kv

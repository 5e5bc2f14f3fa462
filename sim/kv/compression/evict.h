#pragma once
// Eviction by importance: whole blocks (a block's score is the sum over its surviving positions) or single entries.
// Protected blocks always stay and count inside the budget. Ties keep the earlier position.

#include <span>
#include <vector>

#include "kv/compression/working_layer.h"

namespace kvtide::kv {

/// Which candidates stay: the protected ones and, while the budget lasts, the best scores; on a tie the earlier.
/// @param scores, is_protected  [candidate]
[[nodiscard]] std::vector<bool> choose_kept(std::span<const double> scores, const std::vector<bool>& is_protected,
                                            PartsPerMillion keep);

void apply(const Evict& stage, WorkingLayer& layer);

}  // namespace kvtide::kv

#pragma once
// Attention-sum importance: the softmax mass a position receives from the last `score_window` queries, summed over the
// window and over the query heads of its group (H2O, arXiv 2306.14048, restricted to a window as in SnapKV,
// 2404.14469).

#include "kv/compression/scorer.h"

namespace kvtide::kv {

/// Computed in float64, so that near-equal blocks are ordered as an exact reference orders them.
/// @throws InputError when the trace holds no query in num_positions - score_window .. num_positions - 1
[[nodiscard]] LayerScores attention_sum_scores(const LayerTensors& layer, const ScorerContext& context);

[[nodiscard]] ScorerEntry attention_sum_scorer();

}  // namespace kvtide::kv

#pragma once
// What a value contributes to the layer's output, and the two-stage choice of CriticalKV and CriticalAdaKV (arXiv
// 2502.03805) built on it.
//
// Example: budget 4, first stage 0.5: the 2 best scores stay; the other 2 places go to the best of (score + epsilon) *
// |W_o v|_1 among the rest.

#include "kv/compression/compression.h"

namespace kvtide::kv {

/// |W_o v|_1 per KV head and position, mean over the group's query heads.
/// @param output_projection  [hidden, query_head * head_dim]
[[nodiscard]] LayerScores projected_value_norms(const LayerTensors& layer, std::int64_t num_positions,
                                                const RowMatrix& output_projection);

/// Scores after both stages: what the first stage keeps has the largest float.
[[nodiscard]] LayerScores two_stage_scores(const Evict& stage, LayerScores scores, const LayerScores& norms);

}  // namespace kvtide::kv

#pragma once
// Exact causal softmax attention of recorded queries over keys: the reference that scorers and loss meters share.

#include "kv/head_tensors.h"

namespace kvtide::kv {

/// Softmax weights of queries over keys, a query at position p seeing keys 0..p.
///
/// @param q          [query_rows, head_dim], after RoPE
/// @param positions  absolute position of each query row's query; row r belongs to positions[r % positions.size()]
/// @param k          [position, head_dim], after RoPE; only its first `num_keys` rows are seen
/// @return [query_rows, num_keys]; each row sums to 1 (float32 scores, float64 sums)
[[nodiscard]] RowMatrix attention_weights(const Eigen::Ref<const RowMatrix>& q,
                                          const std::vector<std::int64_t>& positions,
                                          const Eigen::Ref<const RowMatrix>& k, std::int64_t num_keys, float scale);

}  // namespace kvtide::kv

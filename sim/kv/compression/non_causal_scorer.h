#pragma once
// Non-causal attention (Compactor, arXiv 2507.08143): softmax over all keys of a chunk, not only earlier ones, of
// unscaled dot products; column sums, mean over the group, times |v|, smoothed over 3, standardised over the layer.

#include "kv/compression/scorer.h"

namespace kvtide::kv {

/// The scores of positions first..end-1 alone. @param is_padded  a last chunk that is not full attends to zero keys and
/// is attended by zero queries up to its size, as the peer's code does
[[nodiscard]] LayerScores non_causal_scores(const LayerTensors& layer, std::int64_t first, std::int64_t end,
                                            std::int64_t chunk, bool is_padded);

[[nodiscard]] ScorerEntry non_causal_scorer();

}  // namespace kvtide::kv

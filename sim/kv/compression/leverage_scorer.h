#pragma once
// Leverage scores of the centred keys before RoPE through a Gaussian sketch (Compactor, arXiv 2507.08143):
// x (X'X + 0.01 I)^-1 x', standardised over the layer. Draws its sketch from the layer's own stream.

#include "kv/compression/scorer.h"

namespace kvtide::kv {

/// The scores of positions first..end-1 alone.
[[nodiscard]] LayerScores leverage_scores(const LayerTensors& layer, std::int64_t first, std::int64_t end,
                                          std::int64_t sketch, std::uint64_t seed);

[[nodiscard]] ScorerEntry leverage_scorer();

}  // namespace kvtide::kv

#pragma once
// Bounds on what a page can receive. quest (arXiv 2406.10774): sum over channels of max(q max, q min) of the page's box;
// arkvale (NeurIPS 2024): q.centre + radius |q| of a sphere around the box. Every position of a page has the bound, for
// the newest query, summed over the group. Example: keys (1, -1), (3, 0), q (1, 1): box [1, 3] x [-1, 0], bound 3 + 0.

#include "kv/compression/scorer.h"

namespace kvtide::kv {

[[nodiscard]] ScorerEntry quest_scorer();
[[nodiscard]] ScorerEntry arkvale_scorer();

}  // namespace kvtide::kv

#pragma once
// Minus the cosine between a key and the mean direction of all keys: what is unlike the rest is kept (KeyDiff,
// arXiv 2504.15364). Example: keys (1, 0), (1, 0), (0, 1): the mean direction is (2/3, 1/3), cosines 0.894, 0.894, 0.447.

#include "kv/compression/scorer.h"

namespace kvtide::kv {

[[nodiscard]] ScorerEntry keydiff_scorer();

}  // namespace kvtide::kv

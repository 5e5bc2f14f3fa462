#pragma once
// Standard scores over a layer: (x - mean) / deviation, all heads together, the unbiased deviation at least 1e-6.
// Example: 1, 2, 3 -> -1, 0, 1.

#include "kv/compression/compression.h"

namespace kvtide::kv {

void standardise(LayerScores& scores);

}  // namespace kvtide::kv

#pragma once
// Uniform random scores: the control that any scorer must beat. Draws from the layer's own stream.

#include "kv/compression/scorer.h"

namespace kvtide::kv {

[[nodiscard]] ScorerEntry random_scorer();

}  // namespace kvtide::kv

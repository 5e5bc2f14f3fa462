#pragma once
// Compactor (arXiv 2507.08143): blending * leverage + non-causal attention, over what lies between the protected ends;
// blending is the share removed unless given.

#include "kv/compression/scorer.h"

namespace kvtide::kv {

[[nodiscard]] ScorerEntry compactor_scorer();

}  // namespace kvtide::kv

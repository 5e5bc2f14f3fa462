#pragma once
// CapKV (arXiv 2604.25975): w v'(I + sum w v v')^-1 v with w = exp(tau cos(key, mean query to come)), mean over the
// group. The first `sinks` positions score above everything.

#include "kv/compression/scorer.h"

namespace kvtide::kv {

[[nodiscard]] ScorerEntry cap_scorer();

}  // namespace kvtide::kv

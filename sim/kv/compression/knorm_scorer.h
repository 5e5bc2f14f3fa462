#pragma once
// Minus the length of the key: keys of small norm draw attention (Devoto et al., arXiv 2406.11430).
// Example: keys (3, 4) and (0, 1) score -5 and -1; the second is kept.

#include "kv/compression/scorer.h"

namespace kvtide::kv {

[[nodiscard]] ScorerEntry knorm_scorer();

}  // namespace kvtide::kv

#pragma once
// The attention that the queries after the compressed positions really pay: no policy can know it, none can lose less
// of that attention at equal bytes. Uses the future, by name.

#include "kv/compression/scorer.h"

namespace kvtide::kv {

[[nodiscard]] ScorerEntry oracle_scorer();

}  // namespace kvtide::kv

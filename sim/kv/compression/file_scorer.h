#pragma once
// Bring your own method: scores or kept positions that any program wrote, see the room's README.

#include "kv/compression/scorer.h"

namespace kvtide::kv {

[[nodiscard]] ScorerEntry file_scorer();

}  // namespace kvtide::kv

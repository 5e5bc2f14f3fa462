#pragma once
// TOVA (arXiv 2401.06104): attention of the newest query, mean over all query heads of the layer, the same for every KV
// head. The newest position scores above everything.

#include "kv/compression/scorer.h"

namespace kvtide::kv {

[[nodiscard]] ScorerEntry tova_scorer();

}  // namespace kvtide::kv

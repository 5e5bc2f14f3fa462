#pragma once
// SnapKV (arXiv 2404.14469): mean attention of the last `window` queries on what precedes them, smoothed over
// `kernel` neighbours (zeros beyond the ends count), mean over the group. The window itself scores above everything.

#include "kv/compression/scorer.h"

namespace kvtide::kv {

[[nodiscard]] ScorerEntry snapkv_scorer();

}  // namespace kvtide::kv

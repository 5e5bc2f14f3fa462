#pragma once
// PagedEviction (arXiv 2509.04377): |v| / |k|; pages go by their mean.

#include "kv/compression/scorer.h"

namespace kvtide::kv {

[[nodiscard]] ScorerEntry paged_eviction_scorer();

}  // namespace kvtide::kv

#pragma once
// InfLLM (arXiv 2402.04617): a block is known by its `representatives` positions of highest attention from their own
// neighbourhood; its score is the sum of their dot products with the newest query, and every position has it.

#include "kv/compression/scorer.h"

namespace kvtide::kv {

[[nodiscard]] ScorerEntry infllm_scorer();

}  // namespace kvtide::kv

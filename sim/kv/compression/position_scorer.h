#pragma once
// Controls that look at no number: what a method must beat. streaming keeps the first `sinks` and the newest
// (StreamingLLM, arXiv 2309.17453); first, newest and strided keep the head, the tail and every n-th position.
// Example: 10 positions, keep 0.5, sinks 2: streaming keeps 0, 1 and 7, 8, 9.

#include "kv/compression/scorer.h"

namespace kvtide::kv {

[[nodiscard]] ScorerEntry streaming_scorer();
[[nodiscard]] ScorerEntry first_scorer();
[[nodiscard]] ScorerEntry newest_scorer();
[[nodiscard]] ScorerEntry strided_scorer();

}  // namespace kvtide::kv

#pragma once
// Heads that look far back keep everything, the others sinks and newest positions alone (DuoAttention, arXiv 2410.10819;
// RazorAttention, arXiv 2407.15891). Retrieval heads are those that give most attention to what lies between; the papers
// find theirs by optimisation or by probes once a model.
//
// Example: share 0.5 of 3 KV heads is 2, rounded up; attention between 0.1, 0.7, 0.4: heads 1 and 2 score 1 everywhere,
// head 0 scores 0. With `threshold: 0.5` head 0 keeps what `protect` keeps.

#include "kv/compression/scorer.h"

namespace kvtide::kv {

/// [kv_head] attention of the last `window` queries on positions between the first `sinks` and the last `newest`.
[[nodiscard]] std::vector<double> attention_between(const LayerTensors& layer, std::int64_t num_positions,
                                                    std::int64_t window, std::int64_t sinks, std::int64_t newest);

[[nodiscard]] ScorerEntry retrieval_heads_scorer();

}  // namespace kvtide::kv

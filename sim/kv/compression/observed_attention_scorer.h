#pragma once
// Attention received so far. normalise 1: the mean over the queries that could see the position (kvpress
// ObservedAttention); 0: the plain sum of H2O (arXiv 2306.14048), which favours early positions because more queries see
// them. Example: three positions of equal logits receive 11/6, 5/6, 1/3 in all and 11/18, 5/12, 1/3 a query.

#include "kv/compression/scorer.h"

namespace kvtide::kv {

[[nodiscard]] ScorerEntry observed_attention_scorer();

}  // namespace kvtide::kv

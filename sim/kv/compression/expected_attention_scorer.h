#pragma once
// Expected attention (arXiv 2510.00636): queries to come are taken as Gaussian, with the mean and covariance of the
// queries before RoPE turned by the mean rotation of the next `future` positions; score = softmax(mu.k/sqrt(d) +
// k'Sk/2d), mean over the group, times |v|. The first `sinks` positions score above everything.

#include "kv/compression/scorer.h"

namespace kvtide::kv {

[[nodiscard]] ScorerEntry expected_attention_scorer();

}  // namespace kvtide::kv

#pragma once
// CUR (arXiv 2509.15038): squared lengths of key and value as approximate leverage, each divided by its sum over local
// windows, multiplied. The first `sinks` positions score 1.
// Example: window 2, |k|^2 = 1, 3 and |v|^2 = 1, 1: 1/4 * 1/2 and 3/4 * 1/2, scaled to 1/4 and 3/4.

#include "kv/compression/scorer.h"

namespace kvtide::kv {

[[nodiscard]] ScorerEntry cur_scorer();

}  // namespace kvtide::kv

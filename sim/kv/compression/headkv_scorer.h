#pragma once
// Budgets by head (HeadKV, arXiv 2410.19258): a head that looks far back may keep more, and what it keeps are its best
// positions by SnapKV. With `heads: adaptive` one budget serves all heads of a layer; the position of rank r in a head of
// importance w scores w / r, so that the best of all heads together are w_1 : w_2 : ... of each. `safeguard` is the part of
// the even budget that no head lends to the others.
//
// Example: importances 0.6 and 0.3, budget 3: scores 0.6, 0.3, 0.2, ... and 0.3, 0.15, ...: the best three are ranks 1 and
// 2 of the first head and rank 1 of the second.

#include "kv/compression/scorer.h"

namespace kvtide::kv {

[[nodiscard]] ScorerEntry headkv_scorer();

}  // namespace kvtide::kv

#pragma once
// FINCH (TACL 2024, tacl_a_00716): SnapKV without smoothing, the window being the question, and each weight times the
// number of positions its query could see. The window itself scores above everything.

#include "kv/compression/scorer.h"

namespace kvtide::kv {

[[nodiscard]] ScorerEntry finch_scorer();

}  // namespace kvtide::kv

#pragma once
// Eviction by importance: whole blocks (a block's score is the sum over its surviving positions) or single entries.
// Protected blocks always stay and count inside the budget. Ties keep the earlier position.

#include "kv/compression/working_layer.h"

namespace kvtide::kv {

void apply(const Evict& stage, WorkingLayer& layer);

}  // namespace kvtide::kv

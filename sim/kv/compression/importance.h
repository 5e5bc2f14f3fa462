#pragma once
// Final scores of one layer for one evict stage: the scorer, then what the stage does to its scores (the second stage of
// CriticalKV, a selection other than the best anywhere).

#include <string>

#include "kv/compression/scorer.h"

namespace kvtide::kv {

/// @param context  its keep, parameters are taken from the stage
/// @throws InputError  when the layer lacks what the scorer needs
[[nodiscard]] LayerScores importance(const Compression& setting, const Evict& stage, const LayerTensors& layer,
                                     ScorerContext context);

/// Whether the stage reads W_o.
[[nodiscard]] bool needs_output_projection(const Evict& stage);

/// Everything of a setting that importance() depends on, as text: two stages of one key share their scores.
[[nodiscard]] std::string importance_key(const Compression& setting, const Evict& stage);

}  // namespace kvtide::kv

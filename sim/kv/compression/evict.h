#pragma once
// Eviction by importance: whole blocks (a block's score is the sum or the mean over its surviving positions) or single entries.
// Protected blocks always stay and count inside the budget. Ties keep the earlier position.

#include <cstdint>
#include <span>
#include <vector>

#include "kv/compression/working_layer.h"

namespace kvtide::kv {

/// [candidate] 1 or 0.
using PositionMask = std::vector<std::uint8_t>;

/// Which candidates stay: the protected ones and, while the budget lasts, the best scores; on a tie the earlier.
/// @param scores, is_protected  [candidate]
[[nodiscard]] PositionMask choose_kept(std::span<const double> scores, const PositionMask& is_protected,
                                       PartsPerMillion keep);

/// The same with the number that stay instead of a ratio; the protected ones stay in any case.
[[nodiscard]] PositionMask choose_best(std::span<const double> scores, const PositionMask& is_protected,
                                       std::int64_t count);

/// Indices of the `count` best scores, ascending; on a tie the earlier, and what is no number last. @param count  anything; 0..size is used
[[nodiscard]] std::vector<std::size_t> best_positions(std::span<const double> scores, std::int64_t count);

/// The same for all heads of a layer, as the stage's head scope says: each head by itself, all by their sum, or one
/// budget for all. @param scores  [kv_head][candidate]; @param is_protected  [kv_head][candidate]
[[nodiscard]] std::vector<PositionMask> choose_kept_of_layer(const Evict& stage,
                                                             std::vector<std::vector<double>> scores,
                                                             const std::vector<PositionMask>& is_protected);

void apply(const Evict& stage, WorkingLayer& layer);

}  // namespace kvtide::kv

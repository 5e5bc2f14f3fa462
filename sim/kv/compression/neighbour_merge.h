#pragma once
// Runs of neighbouring positions with similar keys become one entry around the position that stays (KVMerger, arXiv
// 2407.08454): k_p <- sum g_i k_i / sum g_i over the position p and its members i, g_i = exp(-|k_p - k_i|^2 / (2 s^2)), s the
// mean of |k_p - k_i| over its members, g_p = 1; values with the same weights.
//
// A dropped position belongs to the kept one that it reaches over neighbours whose keys have at least a given cosine, each with
// the next; where both ends of a gap reach each other, it is cut at the least of these cosines, of equals the first.
//
// Example: keys 1 (kept) and 3: s = 2, g = exp(-4 / 8) = 0.6065, key (1 + 0.6065 * 3) / 1.6065 = 1.7551.

#include "kv/compression/compression.h"
#include "kv/position_runs.h"

namespace kvtide::kv {

/// Members of one kept position, itself not among them, ascending.
using NeighbourSet = std::vector<std::int64_t>;

/// @param evicted  gaps among positions 0..num_positions-1
/// @param kept     the positions between, ascending
/// @return [kept]; a position that no set holds is dropped
[[nodiscard]] std::vector<NeighbourSet> neighbour_sets(const HeadTensors& head, const PositionRuns& evicted,
                                                       const std::vector<std::int64_t>& kept, double similarity);

/// [member] g_i.
[[nodiscard]] std::vector<double> gaussian_weights(const RowMatrix& keys, std::int64_t position,
                                                   const NeighbourSet& members);

}  // namespace kvtide::kv

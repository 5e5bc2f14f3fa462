#pragma once
// Attention mass that a compressed head loses, position by position (definition in loss_meter.h).

#include <vector>

#include "loss/head_comparison.h"

namespace kvtide::loss {

struct MassLoss {
  std::vector<double> lost_mass;  ///< [position] sum_i w_i max(0, a_ij - atilde_ij)
  std::vector<double> relative;   ///< [position] M = lost_mass / attention; 0/0 is 1 for an evicted key, else 0
  std::vector<double> of_row;     ///< [row] sum_j max(0, a_ij - atilde_ij); lost_mass sums to their mean
};

[[nodiscard]] MassLoss mass_loss(const HeadReference& reference, const HeadComparison& comparison);

/// Of any cache, from products in float32 where they serve (replay_loss.h).
[[nodiscard]] MassLoss measure_mass(const HeadReference& reference, const kv::HeadCache& cache);

/// Share omega_ij of each member in its entry's attention for one row; equal shares where all weights are 0.
/// @param shares  [member], overwritten
void member_shares(const HeadReference& reference, const ChangedEntry& entry, std::int64_t row,
                   std::vector<double>& shares);

}  // namespace kvtide::loss

#pragma once
// What attention loses at each position when a compressed cache stands in for the full one.
//
// With queries i of weight w_i, full-cache weights a_ij and outputs o_i, compressed entries e (members M_e, relative
// weight r_ie = phat_ie / Z_i, mass ratio S_i = sum_e r_ie, output ohat_i) and the share omega_ij = a_ij / sum_{M_e}
// a_ij:
//   lost mass        sum_i w_i max(0, a_ij - omega_ij r_ie / S_i)
//   relative loss M  lost mass / sum_i w_i a_ij, in [0, 1]; 1 for an evicted key
//   delta_ij         a_ij (v_j - ohat_i) - omega_ij r_ie (vhat_e - ohat_i);  sum_j delta_ij = o_i - ohat_i exactly
//   output loss C    sum_i w_i <delta_ij, o_i - ohat_i> / |o_i|^2;  sum_j C(j) = mean of E_i^2;  may be negative
//   output loss C+   sum_i w_i |delta_ij|^2 / |o_i|^2, never negative
//   output error E   |o_i - ohat_i| / |o_i|
//
// Example: two keys of equal score with values 1 and 3; the second is evicted. a = (1/2, 1/2), o = 2, ohat = 1, E =
// 1/2. M = (0, 1), lost mass = (0, 1/2), delta_2 = 1/2 (3 - 1) = 1, C(2) = 1 * 1 / 4 = E^2.

#include <cstdint>
#include <string_view>
#include <vector>

#include "kv/head_cache.h"
#include "loss/attention_reference.h"
#include "loss/head_reduction.h"

namespace kvtide::loss {

struct HeadLoss {
  std::vector<double> lost_mass;           ///< [position]
  std::vector<double> mass_loss;           ///< [position] M; where no measured query looks: 1 if evicted, else 0
  std::vector<double> output_loss;         ///< [position] C+
  std::vector<double> output_loss_signed;  ///< [position] C
  std::vector<double> bits_lost;           ///< [position] see bits_lost.h
  std::vector<double> lost_of_row;         ///< [row] share of the row's attention that is lost
  double output_error = 0;                 ///< mean E over rows
  double output_error_squared = 0;         ///< mean E^2 over rows
};

/// @param cache  with entries, over the reference's positions
[[nodiscard]] HeadLoss measure_head(const HeadReference& reference, const kv::HeadCache& cache);

/// The definitions above as they stand, of any cache: what pools take, and what the products in float32 (replay_loss.h, all
/// other caches) are held against.
/// @param cache  with rows of its own, not `is_recorded`
[[nodiscard]] HeadLoss measure_head_in_float64(const HeadReference& reference, const kv::HeadCache& cache);

/// Loss of one run at every position, reduced over layers and KV heads.
struct PositionLoss {
  std::vector<double> mass_loss;           ///< [position] L, in [0, 1]
  std::vector<double> lost_mass;           ///< [position] mean over heads (largest with HeadReduction::max)
  std::vector<double> attention;           ///< [position] mean over heads of sum_i w_i a_ij; sums to 1
  std::vector<double> output_loss;         ///< [position] C+, mean over heads (largest with max)
  std::vector<double> output_loss_signed;  ///< [position] C, mean over heads whatever the reduction: it stays additive
  std::vector<double> bits_lost;           ///< [position] bits per stored element, mean over heads (largest with max)
  double output_error = 0;                 ///< mean E over layers, KV heads, query heads and queries
  double output_error_rms = 0;             ///< root of the mean of E^2; its square is the sum of output_loss_signed
  double lost_attention = 0;               ///< sum of the heads' mean lost mass: the share of attention lost
  std::vector<double> lost_of_query;       ///< [measured query] the same of one query; their mean is lost_attention
  std::vector<std::vector<double>> head_mass_loss;  ///< [layer * kv_head][position] M, for the period rule
};

/// @param caches  [layer], as many as the reference has, each with the layer's KV heads
[[nodiscard]] PositionLoss measure_loss(const AttentionReference& reference, const std::vector<kv::LayerCache>& caches,
                                        HeadReduction reduction);

/// Reduces relative losses of many heads at one position set; exposed for the prefix scan.
/// @param lost,attention,relative  [head][position]
[[nodiscard]] std::vector<double> reduce_mass_loss(const std::vector<std::vector<double>>& lost,
                                                   const std::vector<const std::vector<double>*>& attention,
                                                   const std::vector<std::vector<double>>& relative,
                                                   HeadReduction reduction);

}  // namespace kvtide::loss

#pragma once
// Loss at every position of a head whose entries each stand for one position (rows dropped, or read back with an error, or
// both), from matrix products in float32. measure_head_in_float64 gives the same to about 1e-6 of the largest figure.
//
// Everything is counted from the full cache, so that small changes keep their digits. A stored key gives its position the
// weight h_ij = a_ij (1 + g_ij), g_ij = exp(scale q_i (khat_j - k_j) + bias_j) - 1; a dropped one g_ij = -1. With
// d_ij = a_ij - h_ij = -a_ij g_ij and w_j = v_j - vhat_j (0 where dropped), row i has
//   mass ratio S_i = 1 - sum d_ij,  lost output u_i = sum d_ij v_j + h_ij w_j = o_i - S_i ohat_i
//   error e_i = o_i - ohat_i = (u_i - (1 - S_i) o_i) / S_i
//   lost mass of a position: a_ij - h_ij / S_i = d_ij + h_ij (S_i - 1) / S_i where above 0
//   delta_ij = d_ij (v_j - ohat_i) + h_ij w_j
// so that with f_i = w_i / |o_i|^2
//   C(j)  = sum_i f_i <delta_ij, e_i> = sum_i d (<v, f e> - f <ohat, e>) + h <w, f e>
//   C+(j) = sum_i f_i |delta_ij|^2
//         = sum_i d^2 (f |v|^2 - 2 <v, f ohat> + f |ohat|^2) + 2 d h (f <v, w> - <w, f ohat>) + h^2 f |w|^2
// One product of the rows' queries with khat - k makes g, one of d and h with v and w makes u, and one each of v and w with
// all f_i e_i and f_i ohat_i makes the rest.
//
// Example: keys of equal score with values 1 and 3, the second evicted: S = 1/2, u = 3/2, o = 2, e = (3/2 - 1) / (1/2) = 1,
// ohat = 1, f = 1/4: C(2) = 1/2 (3 * 1/4 - 1/4) = 1/4.

#include <optional>

#include "loss/loss_meter.h"
#include "loss/mass_loss.h"

namespace kvtide::loss {

/// @param cache  with entries, over the reference's positions
/// @return nothing where an entry stands for several positions, or a key's error multiplies a weight by more than e^40
///         (below float32's smallest weight such an error could matter)
[[nodiscard]] std::optional<HeadLoss> replay_loss(const HeadReference& reference, const kv::HeadCache& cache);

/// The lost mass alone, a small part of the work; the same numbers.
[[nodiscard]] std::optional<MassLoss> replay_mass(const HeadReference& reference, const kv::HeadCache& cache);

}  // namespace kvtide::loss

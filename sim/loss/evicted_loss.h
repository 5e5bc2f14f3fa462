#pragma once
// Loss at every position of a head whose policy only drops positions, from matrix products in float32. The general way
// (head_comparison.h) in float64 gives the same to about 1e-6 of the largest figure.
//
// With the evicted positions' weights a_ij, lost mass m_i = sum a_ij and lost output u_i = sum a_ij v_j of row i:
//   ohat_i = (o_i - u_i) / (1 - m_i),  error e_i = o_i - ohat_i = (u_i - m_i o_i) / (1 - m_i)
//   delta_ij = a_ij (v_j - ohat_i), so that with f_i = w_i / |o_i|^2
//   C(j)  = sum_i f_i <delta_ij, e_i> = <v_j, sum_i a_ij f_i e_i> - sum_i a_ij f_i <ohat_i, e_i>
//   C+(j) = sum_i f_i |delta_ij|^2 = |v_j|^2 sum_i a_ij^2 f_i - 2 <v_j, sum_i a_ij^2 f_i ohat_i> + sum_i a_ij^2 f_i |ohat_i|^2
// A product of [rows, evicted] with the values makes u; one of the values with all f_i e_i and f_i ohat_i makes the rest.
//
// Example: keys of equal score with values 1 and 3, the second evicted: m = 1/2, u = 3/2, o = 2, e = (3/2 - 1) / (1/2) = 1,
// ohat = 1, f = 1/4: C(2) = 3 * (1/2 * 1/4 * 1) - 1/2 * 1/4 * 1 = 1/4.

#include "loss/loss_meter.h"

namespace kvtide::loss {

/// @param cache  its entries are the recorded rows
[[nodiscard]] HeadLoss evicted_loss(const HeadReference& reference, const kv::HeadCache& cache);

}  // namespace kvtide::loss

#pragma once
// Attention-weighted sums of values over a stretch of positions: what an evicted set gains or gives back.

#include "loss/attention_reference.h"

namespace kvtide::loss {

/// sums(row, c) += sign * (sum over j in begin..end-1 of weights(row, j) * values(j, c))
///
/// Example: weights (1/4, 1/4), values 1 and 3, sign -1 over both: sums fall by 1.
/// @param sums  [row, channel]
void add_value_sums(const Eigen::Ref<const DoubleMatrix>& weights, const kv::RowMatrix& values, std::int64_t begin,
                    std::int64_t end, double sign, Eigen::Ref<DoubleMatrix> sums);

}  // namespace kvtide::loss

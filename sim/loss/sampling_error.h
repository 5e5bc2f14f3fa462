#pragma once
// How far the share of attention lost may be off when only some of the queries were measured.
//
// The share over positions that the policy sees is a ratio R = sum_q l_q / sum_q c_q of what query q loses and what it gives to
// those positions. For n queries drawn from N without replacement its standard error is
// sqrt((1 - n / N) / (n (n - 1)) sum_q (l_q - R c_q)^2) / mean c (Cochran, Sampling Techniques, 3rd edition, 2.46 and 6.13).
//
// Example: losses 0.1 and 0.3 of two queries, all their attention there, drawn from many: R = 0.2, residuals -0.1 and 0.1:
// sqrt(1 / 2 * 0.02) = 0.1. Drawn from two: 0.

#include <cstdint>
#include <span>

#include "loss/attention_reference.h"

namespace kvtide::loss {

/// @param lost            [query] l_q
/// @param given           [query] c_q; as many
/// @param num_candidates  N, queries that they were drawn from
/// @return NaN for a single query out of more, and where no attention is given
[[nodiscard]] double sampling_error(std::span<const double> lost, std::span<const double> given,
                                    std::int64_t num_candidates);

/// What each measured query gives to positions 0..num_positions-1, mean over layers, KV heads and their query heads.
[[nodiscard]] std::vector<double> attention_given(const AttentionReference& reference, std::int64_t num_positions);

}  // namespace kvtide::loss

#pragma once
// What scorers without queries ask of many short rows, at the processor's own vector width: lengths, quadratic forms,
// second moments, deviations. Sums of a few rows are float32, longer ones go on in float64.
//
// Example: rows (3, 4) and (0, 2): squared lengths 25 and 4; with M = [[2, 1], [1, 1]] the form x'Mx is 18 + 24 + 16 = 58 of
// the first row and 4 of the second; their Gram matrix is [[9, 12], [12, 20]].

#include <span>
#include <vector>

#include "kv/head_tensors.h"

namespace kvtide::kv {

/// [row] sum of squares of each of the first `num_rows` rows.
[[nodiscard]] std::vector<float> squared_lengths(const Eigen::Ref<const RowMatrix>& rows, std::int64_t num_rows);

/// [channel] sum of weights[index] * rows[index]; float32 within 64 rows, float64 beyond.
/// @param chosen  [weights.size()] rows to take; null: the first ones
[[nodiscard]] Eigen::VectorXd weighted_sum(const Eigen::Ref<const RowMatrix>& rows, std::span<const float> weights,
                                           const std::int64_t* chosen = nullptr);

/// [row] x' M x for each row x. Half of the products of a plain matrix product: M counts as symmetric.
/// @param matrix  [channel, channel]; only its upper triangle is read
/// @param centre  [channel] subtracted from each row first, or empty
[[nodiscard]] std::vector<float> quadratic_forms(const Eigen::Ref<const RowMatrix>& rows,
                                                 const Eigen::Ref<const Eigen::MatrixXd>& matrix,
                                                 std::span<const float> centre = {});

/// rows' * rows, [channel, channel]; 64 rows in float32 at a time, then in float64.
/// @param centre   [channel] subtracted from each row first, or empty
/// @param factors  [row] multiplies each row then, or empty
[[nodiscard]] Eigen::MatrixXd gram(const Eigen::Ref<const RowMatrix>& rows, std::span<const float> centre = {},
                                   std::span<const float> factors = {});

/// [row] standard deviation (n - 1) over channels of (row - lowest) / (highest - lowest), the bounds of each channel being
/// those of `scale_rows`.
[[nodiscard]] std::vector<float> scaled_deviations(const Eigen::Ref<const RowMatrix>& rows,
                                                   const Eigen::Ref<const RowMatrix>& scale_rows);

}  // namespace kvtide::kv

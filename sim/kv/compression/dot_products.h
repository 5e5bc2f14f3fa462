#pragma once
// The arithmetic under attention scorers: many dot products with the same keys, and exponentials of their rows.
//
// Keys are laid out channel by channel, so that neighbouring positions fill a vector register and each product adds its
// channels in order: the result does not depend on the width of the registers the processor has.

#include <cstdint>
#include <vector>

#include "kv/head_tensors.h"

namespace kvtide::kv {

class TransposedKeys {
 public:
  /// The first `num_keys` rows of `keys`.
  TransposedKeys(const Eigen::Ref<const RowMatrix>& keys, std::int64_t num_keys);

  /// Positions a row of products is padded to: a multiple of 64.
  [[nodiscard]] std::int64_t stride() const { return stride_; }

  /// products[row * stride + position] = scale * (rows[row] . key[position]) for positions below `num_positions`
  /// (rounded up to 64).
  /// @param rows  [num_rows, head_dim], one after another
  void multiply(const float* rows, std::int64_t num_rows, float scale, std::int64_t num_positions,
                float* products) const;

 private:
  std::int64_t stride_;
  std::int64_t head_dim_;
  std::vector<float> channels_;  ///< [channel, stride]
};

/// rows * keys', [row, key]: every row's dot product with every key.
[[nodiscard]] RowMatrix row_products(const Eigen::Ref<const RowMatrix>& rows, const Eigen::Ref<const RowMatrix>& keys);

/// rows' * rows, [channel, channel]; a few rows at a time in float32, then in float64.
[[nodiscard]] Eigen::MatrixXd gram(const Eigen::Ref<const RowMatrix>& rows);

/// Replaces x by exp(x - max x), within 2 units in the last place. @return their sum
double exponentials(float* values, std::int64_t count);

/// sums[i] += factor * values[i]
void add_scaled(const float* values, std::int64_t count, float factor, float* sums);

}  // namespace kvtide::kv

#pragma once
// The arithmetic under attention scorers: many dot products with the same keys, and exponentials of their rows.
//
// Keys are laid out channel by channel, so that neighbouring positions fill a vector register and each product adds its
// channels in order; or in tiles, where the processor multiplies those (matrix_tiles.h). The ways differ by the rounding
// of float32, about 1e-7 of the sum of |q_c k_c|.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kv/compression/matrix_tiles.h"
#include "kv/head_tensors.h"

namespace kvtide::kv {

/// Rows of a product that are best asked for together.
inline constexpr std::int64_t kProductRows = 32;

/// Space for products whose rows begin on lines of the processor's caches; not cleared.
class ProductSpace {
 public:
  explicit ProductSpace(std::int64_t num_products)
      : lines_(std::make_unique_for_overwrite<Line[]>(static_cast<std::size_t>((num_products + 15) / 16))) {}
  [[nodiscard]] float* data() { return lines_[0].products; }
  [[nodiscard]] const float* data() const { return lines_[0].products; }

 private:
  struct alignas(64) Line {
    float products[16];
  };
  std::unique_ptr<Line[]> lines_;
};

class TransposedKeys {
 public:
  /// The first `num_keys` rows of `keys`.
  /// @param precision  half only where sums of many products are compared, never where a key decides by itself
  TransposedKeys(const Eigen::Ref<const RowMatrix>& keys, std::int64_t num_keys,
                 TilePrecision precision = TilePrecision::full);

  /// Positions a row of products is padded to: a multiple of 16.
  [[nodiscard]] std::int64_t stride() const { return stride_; }

  /// products[row * stride + position] = scale * (rows[row] . key[position]) for positions below `num_positions`
  /// (rounded up to 32 or, where that is less, the stride).
  /// @param rows  [num_rows, head_dim], one after another
  void multiply(const float* rows, std::int64_t num_rows, float scale, std::int64_t num_positions,
                float* products) const;

 private:
  std::int64_t stride_;
  std::int64_t head_dim_;
  TilePrecision precision_;
  std::optional<TileOperand> tiles_;  ///< where the processor has tiles and they pay
  std::vector<float> channels_;       ///< [channel, stride], elsewhere
};

/// Queries whose products with a key stand side by side.
inline constexpr std::int64_t kQueryLanes = 64;

/// Keys as they lie, for products with blocks of queries (softmax_columns.h).
class KeyProducts {
 public:
  /// The first `num_keys` rows of `keys`, which outlive this.
  KeyProducts(const Eigen::Ref<const RowMatrix>& keys, std::int64_t num_keys);

  /// products[key * kQueryLanes + lane] = queries[lane] . keys[key] for the first `num_keys` (space: rounded up to 32).
  /// @param queries  [kQueryLanes, head_dim], one after another
  void multiply(const float* queries, std::int64_t num_keys, float* products) const;

 private:
  const float* keys_;
  std::int64_t stride_;
  std::int64_t head_dim_;
  TileOperand tiles_;  ///< where the processor has tiles
};

/// [key] scale * (row . keys[key]): one row, for which laying out the keys is not worth while.
/// @param chosen  [num_keys] rows of `keys` to take; null: the first ones
[[nodiscard]] std::vector<float> single_row_products(const float* row, const Eigen::Ref<const RowMatrix>& keys,
                                                     std::int64_t num_keys, float scale,
                                                     const std::int64_t* chosen = nullptr);

/// rows * keys', [row, key]: every row's dot product with every key.
[[nodiscard]] RowMatrix row_products(const Eigen::Ref<const RowMatrix>& rows, const Eigen::Ref<const RowMatrix>& keys,
                                     TilePrecision precision = TilePrecision::full);

/// [row] sum of |rows[row] . keys[key]| over keys and over sets of channels, good to about 1e-6.
/// @param keys  [key, sets * channels of a row], the sets side by side
[[nodiscard]] std::vector<float> absolute_product_sums(const Eigen::Ref<const RowMatrix>& rows,
                                                       const Eigen::Ref<const RowMatrix>& keys);

/// Replaces x by exp(x - max x), within 2 units in the last place. @return their sum
double exponentials(float* values, std::int64_t count);

/// A matrix element (m, k) at data[m * row_step + k * column_step]: a matrix as it lies or transposed.
struct StridedMatrix {
  const float* data = nullptr;
  std::int64_t row_step = 0;
  std::int64_t column_step = 0;
};

/// product[m * num_columns + n] = sum over k of left(m, k) * right[k * num_columns + n], in float32: up to a few hundred k.
void matrix_product(const StridedMatrix& left, std::int64_t num_rows, std::int64_t num_terms, const float* right,
                    std::int64_t num_columns, float* product);

/// sums[i] += sum over rows of factors[row] * values[row * stride + i], for i below `count`
/// @param chosen  [num_rows] the rows of `values` to take; null: the first ones
void add_scaled_rows(const float* values, std::int64_t stride, std::int64_t num_rows, std::int64_t count,
                     const float* factors, float* sums, const std::int64_t* chosen = nullptr);

}  // namespace kvtide::kv

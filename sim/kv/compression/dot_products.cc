#include "kv/compression/dot_products.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/vector_width.h"
#include "kv/compression/exponential.h"
#include "kv/compression/lanes.h"

namespace kvtide::kv {
namespace {

constexpr std::int64_t kColumns = 64;  ///< positions of a tile
constexpr std::int64_t kRows = 4;      ///< query rows of a tile
/// Positions for which splitting the rows into the parts of matrix tiles is worth while; fewer are multiplied as they are.
constexpr std::int64_t kFewestTilePositions = 65;
constexpr std::int64_t kTilePositions = 32;  ///< that tiles come in

/// A tile whose sums fit into the registers.
template <std::int64_t kNumRows, std::int64_t kNumColumns>
[[gnu::always_inline]] inline void multiply_tile(const float* rows, std::int64_t head_dim, const float* channels,
                                                 std::int64_t stride, float scale, float* products) {
  constexpr std::int64_t kParts = kNumColumns / kNumLanes;
  Lanes sums[kNumRows][kParts] = {};
  for (std::int64_t channel = 0; channel < head_dim; ++channel) {
    Lanes keys[kParts];
#pragma GCC unroll 4
    for (std::int64_t part = 0; part < kParts; ++part) load(channels + channel * stride + part * kNumLanes, keys[part]);
#pragma GCC unroll 8
    for (std::int64_t row = 0; row < kNumRows; ++row) {
      const float query = rows[row * head_dim + channel];
#pragma GCC unroll 4
      for (std::int64_t part = 0; part < kParts; ++part) sums[row][part] += query * keys[part];
    }
  }
  for (std::int64_t row = 0; row < kNumRows; ++row) {
    for (std::int64_t part = 0; part < kParts; ++part) {
      store(scale * sums[row][part], products + row * stride + part * kNumLanes);
    }
  }
}

/// Twice kRows rows, and narrower tiles of them for the last columns. @param num_columns  a multiple of kNumLanes
KVTIDE_EVERY_VECTOR_WIDTH
void multiply_rows(const float* rows, std::int64_t head_dim, const float* channels, std::int64_t stride, float scale,
                   std::int64_t num_columns, float* products) {
  std::int64_t first = 0;
  for (; first + kColumns <= num_columns; first += kColumns) {
    multiply_tile<kRows, kColumns>(rows, head_dim, channels + first, stride, scale, products + first);
    multiply_tile<kRows, kColumns>(rows + kRows * head_dim, head_dim, channels + first, stride, scale,
                                   products + kRows * stride + first);
  }
  for (; first + kColumns / 2 <= num_columns; first += kColumns / 2) {
    multiply_tile<2 * kRows, kColumns / 2>(rows, head_dim, channels + first, stride, scale, products + first);
  }
  if (first < num_columns) {
    multiply_tile<2 * kRows, kNumLanes>(rows, head_dim, channels + first, stride, scale, products + first);
  }
}

constexpr std::int64_t kLanes = 64;

KVTIDE_EVERY_VECTOR_WIDTH
double exponentials_of(float* values, std::int64_t count) {
  float lanes[kLanes];
  std::int64_t index = 0;
  for (float& lane : lanes) lane = values[0];
  for (; index + kLanes <= count; index += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = values[index + lane] > lanes[lane] ? values[index + lane] : lanes[lane];
    }
  }
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::int64_t lane = 0; lane < half; ++lane) {
      lanes[lane] = lanes[lane + half] > lanes[lane] ? lanes[lane + half] : lanes[lane];
    }
  }
  float largest = lanes[0];
  for (; index < count; ++index) largest = values[index] > largest ? values[index] : largest;
  for (float& lane : lanes) lane = 0;
  for (index = 0; index + kLanes <= count; index += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const float e = exponential(values[index + lane] - largest);
      values[index + lane] = e;
      lanes[lane] += e;
    }
  }
  double sums[8] = {};
  for (std::int64_t lane = 0; lane < kLanes; ++lane) sums[lane % 8] += static_cast<double>(lanes[lane]);
  double total = ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
  for (; index < count; ++index) {
    values[index] = exponential(values[index] - largest);
    total += static_cast<double>(values[index]);
  }
  return total;
}

constexpr std::int64_t kSumParts = 4;  ///< registers of columns summed side by side

/// @param chosen  [num_rows] rows to take; null: those from 0 on
KVTIDE_EVERY_VECTOR_WIDTH
void add_scaled_rows_of(const float* values, std::int64_t stride, const std::int64_t* chosen, std::int64_t num_rows,
                        std::int64_t count, const float* factors, float* sums) {
  std::int64_t first = 0;
  for (; first + kSumParts * kNumLanes <= count; first += kSumParts * kNumLanes) {
    // Even and odd rows apart: each sum waits for the one before it.
    Lanes even[kSumParts];
    Lanes odd[kSumParts] = {};
    for (std::int64_t part = 0; part < kSumParts; ++part) load(sums + first + part * kNumLanes, even[part]);
    const auto add = [&](std::int64_t row, Lanes(&to)[kSumParts]) __attribute__((always_inline)) {
      const float* of_row = values + (chosen != nullptr ? chosen[row] : row) * stride + first;
      for (std::int64_t part = 0; part < kSumParts; ++part) {
        Lanes own;
        load(of_row + part * kNumLanes, own);
        to[part] += factors[row] * own;
      }
    };
    std::int64_t row = 0;
    for (; row + 2 <= num_rows; row += 2) {
      add(row, even);
      add(row + 1, odd);
    }
    if (row < num_rows) add(row, even);
    for (std::int64_t part = 0; part < kSumParts; ++part)
      store(even[part] + odd[part], sums + first + part * kNumLanes);
  }
  for (; first < count; ++first) {
    for (std::int64_t row = 0; row < num_rows; ++row) {
      sums[first] += factors[row] * values[(chosen != nullptr ? chosen[row] : row) * stride + first];
    }
  }
}

/// Sixteen keys at a time. @param chosen  as above; @param products  [num_keys rounded up to 16]
KVTIDE_EVERY_VECTOR_WIDTH
void single_row_products_of(const float* row, const float* keys, std::int64_t stride, const std::int64_t* chosen,
                            std::int64_t head_dim, std::int64_t num_keys, float scale, float* products) {
  const std::int64_t whole = head_dim / kNumLanes * kNumLanes;
  for (std::int64_t first = 0; first < num_keys; first += kNumLanes) {
    const float* of_key[kNumLanes];
    Lanes sums[kNumLanes] = {};
    for (std::int64_t lane = 0; lane < kNumLanes; ++lane) {
      const std::int64_t key = std::min(first + lane, num_keys - 1);
      of_key[lane] = keys + (chosen != nullptr ? chosen[key] : key) * stride;
    }
    for (std::int64_t channel = 0; channel < whole; channel += kNumLanes) {
      Lanes of_row;
      load(row + channel, of_row);
      for (std::int64_t lane = 0; lane < kNumLanes; ++lane) {
        Lanes own;
        load(of_key[lane] + channel, own);
        sums[lane] += of_row * own;
      }
    }
    sum_each(sums);
    float* of_keys = products + first;
    store(sums[0], of_keys);
    for (std::int64_t lane = 0; lane < std::min(kNumLanes, num_keys - first); ++lane) {
      for (std::int64_t channel = whole; channel < head_dim; ++channel) {
        of_keys[lane] += row[channel] * of_key[lane][channel];
      }
      of_keys[lane] *= scale;
    }
  }
}

/// Some rows and 64 columns of a product; the columns behind one another in memory, the left factor as it comes.
template <std::int64_t kNumRows>
[[gnu::always_inline]] inline void product_of_rows(const float* left, std::int64_t row_step, std::int64_t column_step,
                                                   std::int64_t num_terms, const float* right, std::int64_t num_columns,
                                                   float* product) {
  float sums[kNumRows][kColumns] = {};
  for (std::int64_t term = 0; term < num_terms; ++term) {
    const float* of_term = right + term * num_columns;
    for (std::int64_t row = 0; row < kNumRows; ++row) {
      const float factor = left[row * row_step + term * column_step];
      for (std::int64_t column = 0; column < kColumns; ++column) sums[row][column] += factor * of_term[column];
    }
  }
  for (std::int64_t row = 0; row < kNumRows; ++row) {
    for (std::int64_t column = 0; column < kColumns; ++column) product[row * num_columns + column] = sums[row][column];
  }
}

/// @param num_rows  1..kRows
KVTIDE_EVERY_VECTOR_WIDTH
void product_tile(const float* left, std::int64_t row_step, std::int64_t column_step, std::int64_t num_rows,
                  std::int64_t num_terms, const float* right, std::int64_t num_columns, float* product) {
  if (num_rows == kRows) {
    return product_of_rows<kRows>(left, row_step, column_step, num_terms, right, num_columns, product);
  }
  for (std::int64_t row = 0; row < num_rows; ++row) {
    product_of_rows<1>(left + row * row_step, row_step, column_step, num_terms, right, num_columns,
                       product + row * num_columns);
  }
}

KVTIDE_EVERY_VECTOR_WIDTH
float absolute_sum_of(const float* values, std::int64_t count) {
  float lanes[kLanes] = {};
  std::int64_t index = 0;
  for (; index + kLanes <= count; index += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += std::fabs(values[index + lane]);
  }
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  for (; index < count; ++index) sum += std::fabs(values[index]);
  return sum;
}

}  // namespace

TransposedKeys::TransposedKeys(const Eigen::Ref<const RowMatrix>& keys, std::int64_t num_keys, TilePrecision precision)
    : stride_(whole_lanes(num_keys)), head_dim_(keys.cols()), precision_(precision) {
  if (has_matrix_tiles() && num_keys >= kFewestTilePositions) {
    stride_ = (num_keys + kTilePositions - 1) / kTilePositions * kTilePositions;
    tiles_.emplace(TileOperand::Side::columns, keys.data(), num_keys, head_dim_, keys.outerStride(), 1.0F, precision);
    return;
  }
  channels_.assign(static_cast<std::size_t>(stride_ * head_dim_), 0.0F);
  constexpr std::int64_t kTile = 16;
  for (std::int64_t first = 0; first < num_keys; first += kTile) {
    const std::int64_t last = std::min(first + kTile, num_keys);
    for (std::int64_t channel = 0; channel < head_dim_; ++channel) {
      float* out = channels_.data() + channel * stride_;
      for (std::int64_t position = first; position < last; ++position) out[position] = keys(position, channel);
    }
  }
}

void TransposedKeys::multiply(const float* rows, std::int64_t num_rows, float scale, std::int64_t num_positions,
                              float* products) const {
  const std::int64_t columns = std::min(stride_, whole_lanes(num_positions));
  const std::int64_t at_once = tiles_ ? kProductRows : 2 * kRows;
  const auto multiply_whole = [&](const float* from, std::int64_t count, float* to) {
    if (tiles_) return tile_product({from, count, head_dim_, scale}, *tiles_, columns, precision_, to, stride_);
    for (std::int64_t row = 0; row < count; row += 2 * kRows) {
      multiply_rows(from + row * head_dim_, head_dim_, channels_.data(), stride_, scale, columns, to + row * stride_);
    }
  };
  const std::int64_t whole = num_rows / at_once * at_once;
  if (whole > 0) multiply_whole(rows, whole, products);
  if (whole == num_rows) return;
  // The last rows, padded into scratch, then copied.
  thread_local std::vector<float> padded;
  thread_local std::vector<float> scratch;
  padded.assign(static_cast<std::size_t>(at_once * head_dim_), 0.0F);
  std::copy_n(rows + whole * head_dim_, (num_rows - whole) * head_dim_, padded.begin());
  scratch.resize(static_cast<std::size_t>(at_once * stride_));
  multiply_whole(padded.data(), at_once, scratch.data());
  for (std::int64_t row = whole; row < num_rows; ++row) {
    std::copy_n(scratch.data() + (row - whole) * stride_, columns, products + row * stride_);
  }
}

KeyProducts::KeyProducts(const Eigen::Ref<const RowMatrix>& keys, std::int64_t num_keys)
    : keys_(keys.data()), stride_(keys.outerStride()), head_dim_(keys.cols()) {
  if (has_matrix_tiles()) tiles_ = TileOperand(TileOperand::Side::rows, keys_, num_keys, head_dim_, stride_);
}

void KeyProducts::multiply(const float* queries, std::int64_t num_keys, float* products) const {
  if (has_matrix_tiles()) {
    thread_local TileOperand columns;
    columns.assign(TileOperand::Side::columns, queries, kQueryLanes, head_dim_, head_dim_);
    tile_product(tiles_, columns, num_keys, kQueryLanes, TilePrecision::full, products, kQueryLanes);
    return;
  }
  thread_local std::vector<float> channels;
  channels.resize(static_cast<std::size_t>(head_dim_ * kQueryLanes));
  for (std::int64_t lane = 0; lane < kQueryLanes; ++lane) {
    for (std::int64_t channel = 0; channel < head_dim_; ++channel) {
      channels[static_cast<std::size_t>(channel * kQueryLanes + lane)] = queries[lane * head_dim_ + channel];
    }
  }
  matrix_product({keys_, stride_, 1}, num_keys, head_dim_, channels.data(), kQueryLanes, products);
}

std::vector<float> single_row_products(const float* row, const Eigen::Ref<const RowMatrix>& keys, std::int64_t num_keys,
                                       float scale, const std::int64_t* chosen) {
  std::vector<float> products(static_cast<std::size_t>((num_keys + kNumLanes - 1) / kNumLanes * kNumLanes));
  single_row_products_of(row, keys.data(), keys.outerStride(), chosen, keys.cols(), num_keys, scale, products.data());
  products.resize(static_cast<std::size_t>(num_keys));
  return products;
}

namespace {

/// Hands over `kProductRows` rows of rows * keys' at a time. @param visit  (first row, count, products, stride)
template <typename Visit>
void for_product_rows(const Eigen::Ref<const RowMatrix>& rows, const Eigen::Ref<const RowMatrix>& keys,
                      TilePrecision precision, Visit visit) {
  const TransposedKeys transposed(keys, keys.rows(), precision);
  std::vector<float> products(static_cast<std::size_t>(kProductRows * transposed.stride()));
  const bool is_dense = rows.outerStride() == rows.cols();
  RowMatrix part;
  for (std::int64_t first = 0; first < rows.rows(); first += kProductRows) {
    const std::int64_t count = std::min(kProductRows, rows.rows() - first);
    if (!is_dense) part = rows.middleRows(first, count);
    transposed.multiply(is_dense ? rows.data() + first * rows.cols() : part.data(), count, 1.0F, keys.rows(),
                        products.data());
    visit(first, count, products.data(), transposed.stride());
  }
}

}  // namespace

RowMatrix row_products(const Eigen::Ref<const RowMatrix>& rows, const Eigen::Ref<const RowMatrix>& keys,
                       TilePrecision precision) {
  RowMatrix result(rows.rows(), keys.rows());
  for_product_rows(rows, keys, precision,
                   [&](std::int64_t first, std::int64_t count, const float* products, std::int64_t stride) {
                     for (std::int64_t row = 0; row < count; ++row) {
                       std::copy_n(products + row * stride, keys.rows(), result.row(first + row).data());
                     }
                   });
  return result;
}

std::vector<float> absolute_product_sums(const Eigen::Ref<const RowMatrix>& rows,
                                         const Eigen::Ref<const RowMatrix>& keys) {
  const std::int64_t channels = rows.cols();
  std::vector<float> sums(static_cast<std::size_t>((rows.rows() + kProductRows - 1) / kProductRows * kProductRows));
  std::vector<TileOperand> sets;
  for (std::int64_t first = 0; first < keys.cols(); first += channels) {
    if (has_matrix_tiles()) {
      sets.emplace_back(TileOperand::Side::columns, keys.data() + first, keys.rows(), channels, keys.outerStride(),
                        1.0F, TilePrecision::half);
      continue;
    }
    for_product_rows(rows, keys.middleCols(first, channels), TilePrecision::half,
                     [&](std::int64_t row, std::int64_t count, const float* products, std::int64_t stride) {
                       for (std::int64_t index = 0; index < count; ++index) {
                         sums[static_cast<std::size_t>(row + index)] +=
                             absolute_sum_of(products + index * stride, keys.rows());
                       }
                     });
  }
  for (std::int64_t row = 0; row < rows.rows() && !sets.empty(); row += kProductRows) {
    const TileOperand part(TileOperand::Side::rows, rows.data() + row * rows.outerStride(),
                           std::min(kProductRows, rows.rows() - row), channels, rows.outerStride(), 1.0F,
                           TilePrecision::half);
    for (const TileOperand& set : sets) add_tile_absolute_sums(part, set, sums.data() + row);
  }
  sums.resize(static_cast<std::size_t>(rows.rows()));
  return sums;
}

void matrix_product(const StridedMatrix& left, std::int64_t num_rows, std::int64_t num_terms, const float* right,
                    std::int64_t num_columns, float* product) {
  const std::int64_t whole_columns = num_columns / kColumns * kColumns;
  for (std::int64_t row = 0; row < num_rows; row += kRows) {
    const std::int64_t count = std::min(kRows, num_rows - row);
    for (std::int64_t column = 0; column < whole_columns; column += kColumns) {
      product_tile(left.data + row * left.row_step, left.row_step, left.column_step, count, num_terms, right + column,
                   num_columns, product + row * num_columns + column);
    }
  }
  if (whole_columns == num_columns) return;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    float* of_row = product + row * num_columns;
    std::fill(of_row + whole_columns, of_row + num_columns, 0.0F);
    for (std::int64_t term = 0; term < num_terms; ++term) {
      const float factor = left.data[row * left.row_step + term * left.column_step];
      for (std::int64_t column = whole_columns; column < num_columns; ++column) {
        of_row[column] += factor * right[term * num_columns + column];
      }
    }
  }
}

double exponentials(float* values, std::int64_t count) {
  return count > 0 ? exponentials_of(values, count) : 0.0;
}

void add_scaled_rows(const float* values, std::int64_t stride, std::int64_t num_rows, std::int64_t count,
                     const float* factors, float* sums, const std::int64_t* chosen) {
  add_scaled_rows_of(values, stride, chosen, num_rows, count, factors, sums);
}

}  // namespace kvtide::kv

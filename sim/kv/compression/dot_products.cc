#include "kv/compression/dot_products.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/vector_width.h"

namespace kvtide::kv {
namespace {

constexpr std::int64_t kColumns = 64;  ///< positions of a tile
constexpr std::int64_t kRows = 4;      ///< query rows of a tile

KVTIDE_EVERY_VECTOR_WIDTH
void multiply_tile(const float* rows, std::int64_t head_dim, const float* channels, std::int64_t stride, float scale,
                   float* products) {
  float sums[kRows][kColumns] = {};
  for (std::int64_t channel = 0; channel < head_dim; ++channel) {
    const float* keys = channels + channel * stride;
    for (std::int64_t row = 0; row < kRows; ++row) {
      const float query = rows[row * head_dim + channel];
      for (std::int64_t column = 0; column < kColumns; ++column) sums[row][column] += query * keys[column];
    }
  }
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t column = 0; column < kColumns; ++column)
      products[row * stride + column] = scale * sums[row][column];
  }
}

/// e^x for x <= 0: 2^n e^r with |r| <= ln2/2 and the minimax polynomial of Cephes' expf.
inline float exponential(float x) {
  constexpr float kSmallest = -87.0F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  const float bounded = x < kSmallest ? kSmallest : x;
  const float shifted = bounded * 1.44269504F + kRound;
  const float whole = shifted - kRound;
  float r = bounded - whole * 0.693359375F;
  r -= whole * -2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const std::int32_t power = (std::bit_cast<std::int32_t>(shifted) + 127) << 23;
  return p * std::bit_cast<float>(power);
}

constexpr std::int64_t kLanes = 64;

KVTIDE_EVERY_VECTOR_WIDTH
double exponentials_of(float* values, std::int64_t count) {
  float lane_max[kLanes];
  std::int64_t index = 0;
  for (float& lane : lane_max) lane = values[0];
  for (; index + kLanes <= count; index += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      lane_max[lane] = values[index + lane] > lane_max[lane] ? values[index + lane] : lane_max[lane];
    }
  }
  float largest = lane_max[0];
  for (const float lane : lane_max) largest = lane > largest ? lane : largest;
  for (; index < count; ++index) largest = values[index] > largest ? values[index] : largest;
  float sums[kLanes] = {};
  index = 0;
  for (; index + kLanes <= count; index += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const float e = exponential(values[index + lane] - largest);
      values[index + lane] = e;
      sums[lane] += e;
    }
  }
  double total = 0;
  for (const float sum : sums) total += static_cast<double>(sum);
  for (; index < count; ++index) {
    values[index] = exponential(values[index] - largest);
    total += static_cast<double>(values[index]);
  }
  return total;
}

KVTIDE_EVERY_VECTOR_WIDTH
void add_scaled_of(const float* values, std::int64_t count, float factor, float* sums) {
  for (std::int64_t index = 0; index < count; ++index) sums[index] += factor * values[index];
}

}  // namespace

TransposedKeys::TransposedKeys(const Eigen::Ref<const RowMatrix>& keys, std::int64_t num_keys)
    : stride_((num_keys + kColumns - 1) / kColumns * kColumns), head_dim_(keys.cols()) {
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
  const std::int64_t columns = std::min(stride_, (num_positions + kColumns - 1) / kColumns * kColumns);
  for (std::int64_t row = 0; row < num_rows; row += kRows) {
    const std::int64_t count = std::min(kRows, num_rows - row);
    if (count == kRows) {
      for (std::int64_t first = 0; first < columns; first += kColumns) {
        multiply_tile(rows + row * head_dim_, head_dim_, channels_.data() + first, stride_, scale,
                      products + row * stride_ + first);
      }
      continue;
    }
    // The last rows, padded with the last one into scratch, then copied.
    std::vector<float> padded(static_cast<std::size_t>(kRows * head_dim_), 0.0F);
    std::copy_n(rows + row * head_dim_, count * head_dim_, padded.begin());
    std::vector<float> scratch(static_cast<std::size_t>(kRows * stride_));
    for (std::int64_t first = 0; first < columns; first += kColumns) {
      multiply_tile(padded.data(), head_dim_, channels_.data() + first, stride_, scale, scratch.data() + first);
    }
    for (std::int64_t index = 0; index < count; ++index) {
      std::copy_n(scratch.data() + index * stride_, columns, products + (row + index) * stride_);
    }
  }
}

RowMatrix row_products(const Eigen::Ref<const RowMatrix>& rows, const Eigen::Ref<const RowMatrix>& keys) {
  const TransposedKeys transposed(keys, keys.rows());
  RowMatrix result(rows.rows(), keys.rows());
  constexpr std::int64_t kRowsAtOnce = 64;
  std::vector<float> products(static_cast<std::size_t>(kRowsAtOnce * transposed.stride()));
  const RowMatrix dense = rows;  // rows one after another, whatever they are a part of
  for (std::int64_t first = 0; first < dense.rows(); first += kRowsAtOnce) {
    const std::int64_t count = std::min(kRowsAtOnce, dense.rows() - first);
    transposed.multiply(dense.row(first).data(), count, 1.0F, keys.rows(), products.data());
    for (std::int64_t row = 0; row < count; ++row) {
      std::copy_n(products.data() + row * transposed.stride(), keys.rows(), result.row(first + row).data());
    }
  }
  return result;
}

Eigen::MatrixXd gram(const Eigen::Ref<const RowMatrix>& rows) {
  Eigen::MatrixXd sum = Eigen::MatrixXd::Zero(rows.cols(), rows.cols());
  constexpr std::int64_t kRowsAtOnce = 256;
  for (std::int64_t first = 0; first < rows.rows(); first += kRowsAtOnce) {
    const RowMatrix part = rows.middleRows(first, std::min(kRowsAtOnce, rows.rows() - first)).transpose();
    sum += row_products(part, part).cast<double>();
  }
  return sum;
}

double exponentials(float* values, std::int64_t count) {
  return count > 0 ? exponentials_of(values, count) : 0.0;
}

void add_scaled(const float* values, std::int64_t count, float factor, float* sums) {
  add_scaled_of(values, count, factor, sums);
}

}  // namespace kvtide::kv

#include "loss/value_sums.h"

#include <algorithm>

#include "base/vector_width.h"
#include "loss/eight_numbers.h"

namespace kvtide::loss {
namespace {

constexpr std::int64_t kRows = 8;       ///< of a tile, at most
constexpr std::int64_t kChannels = 16;  ///< of a tile: two registers

/// A tile of `kNumRows` rows and kChannels channels, whose sums stay in registers over all positions. Always inlined: by itself it
/// would be compiled for the narrowest registers.
template <std::int64_t kNumRows>
[[gnu::always_inline]] inline void add_tile(const double* weights, std::int64_t weight_stride, const float* values,
                                            std::int64_t num_channels, std::int64_t num_positions, double sign,
                                            double* sums) {
  Eight low[kNumRows] = {};
  Eight high[kNumRows] = {};
  for (std::int64_t j = 0; j < num_positions; ++j) {
    Eight first;
    Eight second;
    load(values + j * num_channels, first);
    load(values + j * num_channels + 8, second);
#pragma GCC unroll 8
    for (std::int64_t row = 0; row < kNumRows; ++row) {
      const double weight = weights[row * weight_stride + j];
      low[row] += weight * first;
      high[row] += weight * second;
    }
  }
  for (std::int64_t row = 0; row < kNumRows; ++row) {
    double* sum = sums + row * num_channels;
    Eight first;
    Eight second;
    load(sum, first);
    load(sum + 8, second);
    store(first + sign * low[row], sum);
    store(second + sign * high[row], sum + 8);
  }
}

/// The tile for `num_rows`, 1..kNumRows.
template <std::int64_t kNumRows>
[[gnu::always_inline]] inline void add_rows(std::int64_t num_rows, const double* weights, std::int64_t weight_stride,
                                            const float* values, std::int64_t num_channels, std::int64_t num_positions,
                                            double sign, double* sums) {
  if (num_rows == kNumRows) {
    return add_tile<kNumRows>(weights, weight_stride, values, num_channels, num_positions, sign, sums);
  }
  if constexpr (kNumRows > 1) {
    add_rows<kNumRows - 1>(num_rows, weights, weight_stride, values, num_channels, num_positions, sign, sums);
  }
}

KVTIDE_EVERY_VECTOR_WIDTH
void add_all(const double* weights, std::int64_t weight_stride, std::int64_t num_rows, const float* values,
             std::int64_t num_channels, std::int64_t num_positions, double sign, double* sums) {
  const std::int64_t whole = num_channels / kChannels * kChannels;
  for (std::int64_t channel = 0; channel < whole; channel += kChannels) {
    for (std::int64_t row = 0; row < num_rows; row += kRows) {
      add_rows<kRows>(std::min(kRows, num_rows - row), weights + row * weight_stride, weight_stride, values + channel,
                      num_channels, num_positions, sign, sums + row * num_channels + channel);
    }
  }
  for (std::int64_t row = 0; row < num_rows; ++row) {
    for (std::int64_t channel = whole; channel < num_channels; ++channel) {
      double sum = 0;
      for (std::int64_t j = 0; j < num_positions; ++j) {
        sum += weights[row * weight_stride + j] * static_cast<double>(values[j * num_channels + channel]);
      }
      sums[row * num_channels + channel] += sign * sum;
    }
  }
}

}  // namespace

void add_value_sums(const Eigen::Ref<const DoubleMatrix>& weights, const kv::RowMatrix& values, std::int64_t begin,
                    std::int64_t end, double sign, Eigen::Ref<DoubleMatrix> sums) {
  if (begin >= end) return;
  add_all(weights.data() + begin, weights.outerStride(), sums.rows(), values.row(begin).data(), values.cols(),
          end - begin, sign, sums.data());
}

}  // namespace kvtide::loss

#include "loss/value_sums.h"

#include "base/vector_width.h"

namespace kvtide::loss {
namespace {

// Eight numbers that the compiler keeps in one register, or in two or four of a narrower processor.
using Eight = double __attribute__((vector_size(64), aligned(8), may_alias));
using EightFloats = float __attribute__((vector_size(32), aligned(4), may_alias));

constexpr std::int64_t kRows = 4;       ///< of a tile
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
    const auto* value = reinterpret_cast<const EightFloats*>(values + j * num_channels);
    const Eight first = __builtin_convertvector(value[0], Eight);
    const Eight second = __builtin_convertvector(value[1], Eight);
    for (std::int64_t row = 0; row < kNumRows; ++row) {
      const double weight = weights[row * weight_stride + j];
      low[row] += weight * first;
      high[row] += weight * second;
    }
  }
  for (std::int64_t row = 0; row < kNumRows; ++row) {
    auto* sum = reinterpret_cast<Eight*>(sums + row * num_channels);
    sum[0] += sign * low[row];
    sum[1] += sign * high[row];
  }
}

KVTIDE_EVERY_VECTOR_WIDTH
void add_all(const double* weights, std::int64_t weight_stride, std::int64_t num_rows, const float* values,
             std::int64_t num_channels, std::int64_t num_positions, double sign, double* sums) {
  const std::int64_t whole = num_channels / kChannels * kChannels;
  for (std::int64_t channel = 0; channel < whole; channel += kChannels) {
    std::int64_t row = 0;
    for (; row + kRows <= num_rows; row += kRows) {
      add_tile<kRows>(weights + row * weight_stride, weight_stride, values + channel, num_channels, num_positions, sign,
                      sums + row * num_channels + channel);
    }
    for (; row < num_rows; ++row) {
      add_tile<1>(weights + row * weight_stride, weight_stride, values + channel, num_channels, num_positions, sign,
                  sums + row * num_channels + channel);
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

void add_value_sums(const DoubleMatrix& weights, const kv::RowMatrix& values, std::int64_t begin, std::int64_t end,
                    double sign, DoubleMatrix& sums) {
  if (begin >= end) return;
  add_all(weights.data() + begin, weights.cols(), sums.rows(), values.row(begin).data(), values.cols(), end - begin,
          sign, sums.data());
}

}  // namespace kvtide::loss

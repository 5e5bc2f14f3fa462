#include "loss/attention_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/vector_width.h"
#include "kv/compression/lanes.h"
#include "loss/eight_numbers.h"

namespace kvtide::loss {
namespace {

constexpr std::int64_t kKeys = 8;    ///< of a tile
constexpr std::int64_t kLanes = 16;  ///< of a tile's rows: two registers

/// Eight rows of eight lanes, transposed: squares of four, of two, of one.
[[gnu::always_inline]] inline void transpose(Eight (&rows)[8]) {
  for (std::size_t row = 0; row < 4; ++row) {
    const Eight low = __builtin_shufflevector(rows[row], rows[row + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    rows[row + 4] = __builtin_shufflevector(rows[row], rows[row + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    rows[row] = low;
  }
  for (const std::size_t row : {0U, 1U, 4U, 5U}) {
    const Eight low = __builtin_shufflevector(rows[row], rows[row + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    rows[row + 2] = __builtin_shufflevector(rows[row], rows[row + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    rows[row] = low;
  }
  for (const std::size_t row : {0U, 2U, 4U, 6U}) {
    const Eight low = __builtin_shufflevector(rows[row], rows[row + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    rows[row + 1] = __builtin_shufflevector(rows[row], rows[row + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    rows[row] = low;
  }
}

/// Products of a tile of keys with sixteen rows, channel by channel: rows in the lanes, so that few of them need no keys
/// turned. They come out by key and are turned.
/// @param q  [channel, kLanes] @param keys  [kKeys, head_dim]
/// @param products  [kLanes, stride], of which kKeys are written; rows from `num_rows` on are left out
[[gnu::always_inline]] inline void multiply_tile(const double* q, std::int64_t head_dim, const double* keys,
                                                 std::int64_t num_rows, double* products, std::int64_t stride) {
  Eight low[kKeys] = {};
  Eight high[kKeys] = {};
  for (std::int64_t channel = 0; channel < head_dim; ++channel) {
    Eight first;
    Eight second;
    load(q + channel * kLanes, first);
    load(q + channel * kLanes + 8, second);
#pragma GCC unroll 8
    for (std::int64_t key = 0; key < kKeys; ++key) {
      const double factor = keys[key * head_dim + channel];
      low[key] += factor * first;
      high[key] += factor * second;
    }
  }
  transpose(low);
  transpose(high);
  for (std::int64_t row = 0; row < num_rows; ++row) store(row < 8 ? low[row] : high[row - 8], products + row * stride);
}

/// @param q     [group of kLanes rows, channel, kLanes]
/// @param keys  space for [kKeys, head_dim]
KVTIDE_EVERY_VECTOR_WIDTH
void multiply_all(const double* q, std::int64_t num_rows, const float* k, std::int64_t num_keys, std::int64_t head_dim,
                  double* keys, double* products) {
  for (std::int64_t first = 0; first < num_keys; first += kKeys) {
    const std::int64_t count = std::min(kKeys, num_keys - first);
    const float* from = k + first * head_dim;
    for (std::int64_t element = 0; element < count * head_dim; ++element) {
      keys[element] = static_cast<double>(from[element]);
    }
    for (std::int64_t row = 0; row < num_rows; row += kLanes) {
      const double* of_rows = q + row * head_dim;
      const std::int64_t some = std::min(kLanes, num_rows - row);
      double* to = products + row * num_keys + first;
      if (count == kKeys) {
        multiply_tile(of_rows, head_dim, keys, some, to, num_keys);
        continue;
      }
      double last[kLanes * kKeys];
      multiply_tile(of_rows, head_dim, keys, some, last, kKeys);
      for (std::int64_t r = 0; r < some; ++r) std::copy_n(last + r * kKeys, count, to + r * num_keys);
    }
  }
}

/// A sum of 0 times each: not a number where one is not finite.
KVTIDE_EVERY_VECTOR_WIDTH
float sum_of_nothings(const float* values, std::int64_t count) {
  kv::Lanes sums = {};
  std::int64_t index = 0;
  for (; index + kv::kNumLanes <= count; index += kv::kNumLanes) {
    kv::Lanes some;
    kv::load(values + index, some);
    sums += 0 * some;
  }
  float sum = kv::sum_of(sums);
  for (; index < count; ++index) sum += 0 * values[index];
  return sum;
}

/// Sixteen rows and sixteen positions of `turn_weights`. @param rows  how many there are
[[gnu::always_inline]] inline void turn_square(const double* weights, std::int64_t stride, std::int64_t rows,
                                               float* turned, std::int64_t turned_stride, double* sums) {
  kv::Lanes square[kv::kNumLanes] = {};
  Eight low;
  Eight high;
  load(sums, low);
  load(sums + 8, high);
  for (std::int64_t row = 0; row < rows; ++row) {
    Eight first;
    Eight second;
    load(weights + row * stride, first);
    load(weights + row * stride + 8, second);
    low += first;
    high += second;
    float narrow[kv::kNumLanes];
    for (std::int64_t lane = 0; lane < kv::kNumLanes; ++lane) {
      narrow[lane] = static_cast<float>(weights[row * stride + lane]);
    }
    kv::load(narrow, square[row]);
  }
  kv::transpose(square);
  for (std::int64_t position = 0; position < kv::kNumLanes; ++position) {
    kv::store(square[position], turned + position * turned_stride);
  }
  store(low, sums);
  store(high, sums + 8);
}

KVTIDE_EVERY_VECTOR_WIDTH
void turn_all(const double* weights, std::int64_t num_rows, std::int64_t num_positions, float* turned,
              std::int64_t turned_stride, double* sums) {
  const std::int64_t whole = num_positions / kv::kNumLanes * kv::kNumLanes;
  for (std::int64_t row = 0; row < num_rows; row += kv::kNumLanes) {
    const double* of_rows = weights + row * num_positions;
    const std::int64_t rows = std::min(kv::kNumLanes, num_rows - row);
    for (std::int64_t position = 0; position < whole; position += kv::kNumLanes) {
      turn_square(of_rows + position, num_positions, rows, turned + position * turned_stride + row, turned_stride,
                  sums + position);
    }
    for (std::int64_t position = whole; position < num_positions; ++position) {
      float* to = turned + position * turned_stride + row;
      std::fill_n(to, kv::kNumLanes, 0.0F);
      for (std::int64_t r = 0; r < rows; ++r) {
        const double weight = of_rows[r * num_positions + position];
        to[r] = static_cast<float>(weight);
        sums[position] += weight;
      }
    }
  }
}

/// e^x for x <= 700: 2^n e^r with |r| <= ln2/2, and e^r by its series to r^13 / 13!, whose remainder is below 4e-18.
inline double exponential(double x) {
  constexpr double kSmallest = -707.0;
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52: adding it leaves the nearest integer in the low bits
  const double bounded = x < kSmallest ? kSmallest : x;
  const double shifted = bounded * 1.4426950408889634 + kRound;
  const double whole = shifted - kRound;
  // ln 2 in two parts, the first of 33 bits: its product with an integer below 2^20 is exact.
  double r = bounded - whole * 6.93147180369123816490e-01;
  r -= whole * 1.90821492927058770002e-10;
  double sum = 1.0 / 6227020800;
  sum = sum * r + 1.0 / 479001600;
  sum = sum * r + 1.0 / 39916800;
  sum = sum * r + 1.0 / 3628800;
  sum = sum * r + 1.0 / 362880;
  sum = sum * r + 1.0 / 40320;
  sum = sum * r + 1.0 / 5040;
  sum = sum * r + 1.0 / 720;
  sum = sum * r + 1.0 / 120;
  sum = sum * r + 1.0 / 24;
  sum = sum * r + 1.0 / 6;
  sum = sum * r + 0.5;
  sum = sum * r * r + r + 1.0;
  const std::uint64_t power = (std::bit_cast<std::uint64_t>(shifted) + 1023) << 52U;
  return x < kSmallest ? 0.0 : sum * std::bit_cast<double>(power);
}

struct ExponentialSum {
  double largest = 0;  ///< of the values as they were
  double sum = 0;      ///< of their exponentials, less the largest
};

KVTIDE_EVERY_VECTOR_WIDTH
ExponentialSum softmax_of(double* values, std::int64_t count) {
  double lanes[kLanes];
  for (double& lane : lanes) lane = values[0];
  std::int64_t index = 0;
  // A value that is not a number is larger than none and makes its exponential, and so the sum, one.
  for (; index + kLanes <= count; index += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = values[index + lane] > lanes[lane] ? values[index + lane] : lanes[lane];
    }
  }
  for (; index < count; ++index) lanes[0] = values[index] > lanes[0] ? values[index] : lanes[0];
  double largest = lanes[0];
  for (const double lane : lanes) largest = lane > largest ? lane : largest;
  for (double& lane : lanes) lane = 0;
  for (index = 0; index + kLanes <= count; index += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      values[index + lane] = exponential(values[index + lane] - largest);
      lanes[lane] += values[index + lane];
    }
  }
  for (; index < count; ++index) {
    values[index] = exponential(values[index] - largest);
    lanes[0] += values[index];
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  const double share = 1 / sum;
  for (index = 0; index < count; ++index) values[index] *= share;
  return {largest, sum};
}

KVTIDE_EVERY_VECTOR_WIDTH
void exponentials_of(double* values, std::int64_t count, double highest) {
  for (std::int64_t index = 0; index < count; ++index) {
    values[index] = exponential(values[index] > highest ? highest : values[index]);
  }
}

constexpr std::int64_t kChannels = 8;  ///< padded_channels() rounds to them

KVTIDE_EVERY_VECTOR_WIDTH
OutputShare share_of(const ChangeRows& rows, const double* full, const double* held, const double* value,
                     const double* stored) {
  Eight signed_loss = {};
  Eight loss = {};
  for (std::int64_t row = 0; row < rows.num_rows; ++row) {
    const double a = full[row];
    const double h = held[row];
    if (a == 0 && h == 0) continue;
    const double factor = rows.factors[row];
    const double* output = rows.outputs + row * rows.num_channels;
    const double* error = rows.errors + row * rows.num_channels;
    Eight along = {};
    Eight size = {};
    for (std::int64_t first = 0; first < rows.num_channels; first += kChannels) {
      Eight of_output;
      Eight of_error;
      Eight of_value;
      Eight of_stored;
      load(output + first, of_output);
      load(error + first, of_error);
      load(value + first, of_value);
      load(stored + first, of_stored);
      const Eight delta = a * (of_value - of_output) - h * (of_stored - of_output);
      along += delta * of_error;
      size += delta * delta;
    }
    signed_loss += factor * along;
    loss += factor * size;
  }
  OutputShare share;
  for (std::int64_t lane = 0; lane < kChannels; ++lane) {
    share.signed_loss += signed_loss[lane];
    share.loss += loss[lane];
  }
  return share;
}

}  // namespace

void key_products(const double* q, std::int64_t num_rows, const float* k, std::int64_t num_keys, std::int64_t head_dim,
                  double* products) {
  std::vector<double> keys(static_cast<std::size_t>(head_dim * kKeys), 0.0);
  std::vector<double> turned(static_cast<std::size_t>((num_rows + kLanes - 1) / kLanes * kLanes * head_dim), 0.0);
  for (std::int64_t row = 0; row < num_rows; ++row) {
    double* to = turned.data() + row / kLanes * kLanes * head_dim + row % kLanes;
    for (std::int64_t channel = 0; channel < head_dim; ++channel) to[channel * kLanes] = q[row * head_dim + channel];
  }
  multiply_all(turned.data(), num_rows, k, num_keys, head_dim, keys.data(), products);
}

bool all_finite(const float* values, std::int64_t count) {
  return sum_of_nothings(values, count) == 0;
}

void turn_weights(const double* weights, std::int64_t num_rows, std::int64_t num_positions, float* turned,
                  std::int64_t turned_stride, double* sums) {
  turn_all(weights, num_rows, num_positions, turned, turned_stride, sums);
}

double softmax(double* values, std::int64_t count) {
  const ExponentialSum total = softmax_of(values, count);
  return total.largest + std::log(total.sum);
}

void exponentials(double* values, std::int64_t count, double highest) {
  exponentials_of(values, count, highest);
}

OutputShare output_share(const ChangeRows& rows, const double* full, const double* held, const double* value,
                         const double* stored) {
  return share_of(rows, full, held, value, stored);
}

}  // namespace kvtide::loss

#include "loss/attention_rows.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/vector_width.h"
#include "loss/eight_numbers.h"

namespace kvtide::loss {
namespace {

constexpr std::int64_t kKeys = 16;  ///< of a tile: two registers
constexpr std::int64_t kRows = 4;   ///< of a tile
constexpr std::int64_t kLanes = 16;

/// Products of `kNumRows` rows with a tile of keys, channel by channel. @param products  [row, kKeys]
template <std::int64_t kNumRows>
[[gnu::always_inline]] inline void multiply_tile(const double* q, std::int64_t head_dim, const double* tile,
                                                 double* products) {
  Eight low[kNumRows] = {};
  Eight high[kNumRows] = {};
  for (std::int64_t channel = 0; channel < head_dim; ++channel) {
    Eight first;
    Eight second;
    load(tile + channel * kKeys, first);
    load(tile + channel * kKeys + 8, second);
    for (std::int64_t row = 0; row < kNumRows; ++row) {
      const double query = q[row * head_dim + channel];
      low[row] += query * first;
      high[row] += query * second;
    }
  }
  for (std::int64_t row = 0; row < kNumRows; ++row) {
    store(low[row], products + row * kKeys);
    store(high[row], products + row * kKeys + 8);
  }
}

KVTIDE_EVERY_VECTOR_WIDTH
void multiply_all(const double* q, std::int64_t num_rows, const float* k, std::int64_t num_keys, std::int64_t head_dim,
                  double* tile, double* products) {
  for (std::int64_t first = 0; first < num_keys; first += kKeys) {
    const std::int64_t count = std::min(kKeys, num_keys - first);
    for (std::int64_t key = 0; key < count; ++key) {
      const float* of_key = k + (first + key) * head_dim;
      for (std::int64_t channel = 0; channel < head_dim; ++channel) {
        tile[channel * kKeys + key] = static_cast<double>(of_key[channel]);
      }
    }
    double block[kRows * kKeys];
    const auto put = [&](std::int64_t row, std::int64_t num) {
      for (std::int64_t r = 0; r < num; ++r) {
        std::copy(block + r * kKeys, block + r * kKeys + count, products + (row + r) * num_keys + first);
      }
    };
    std::int64_t row = 0;
    for (; row + kRows <= num_rows; row += kRows) {
      multiply_tile<kRows>(q + row * head_dim, head_dim, tile, block);
      put(row, kRows);
    }
    for (; row < num_rows; ++row) {
      multiply_tile<1>(q + row * head_dim, head_dim, tile, block);
      put(row, 1);
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

KVTIDE_EVERY_VECTOR_WIDTH
ExponentialSum exponentiate_all(double* values, std::int64_t count) {
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
  std::vector<double> tile(static_cast<std::size_t>(head_dim * kKeys), 0.0);
  multiply_all(q, num_rows, k, num_keys, head_dim, tile.data(), products);
}

ExponentialSum exponentiate(double* values, std::int64_t count) {
  return exponentiate_all(values, count);
}

void exponentials(double* values, std::int64_t count, double highest) {
  exponentials_of(values, count, highest);
}

OutputShare output_share(const ChangeRows& rows, const double* full, const double* held, const double* value,
                         const double* stored) {
  return share_of(rows, full, held, value, stored);
}

}  // namespace kvtide::loss

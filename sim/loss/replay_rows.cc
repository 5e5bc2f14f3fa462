#include "loss/replay_rows.h"

#include <algorithm>
#include <cstring>

#include "base/vector_width.h"
#include "kv/compression/exponential.h"
#include "kv/compression/lanes.h"

namespace kvtide::loss {
namespace {

using kv::kNumLanes;
using kv::Lanes;
using kv::load;
using kv::store;

constexpr float kLargestExponent = 40;
/// Rows that are asked for before their turn: a processor foresees no gaps, and no next page.
constexpr std::int64_t kRowsAhead = 12;

/// Calls visit(first channel, how many) for a register of channels after another.
template <typename Visit>
[[gnu::always_inline]] inline void for_channels(std::int64_t channels, const Visit& visit) {
  std::int64_t channel = 0;
  for (; channel + kNumLanes <= channels; channel += kNumLanes) visit(channel, kNumLanes);
  if (channel < channels) visit(channel, channels - channel);
}

[[gnu::always_inline]] inline void store(const Lanes& lanes, std::int64_t count, float* to) {
  std::memcpy(to, &lanes, static_cast<std::size_t>(count) * sizeof(float));
}

/// sums[index] = sum over the lanes of what add(index, lanes) adds to them, sixteen of them at a time.
template <typename Add>
[[gnu::always_inline]] inline void fold_each(std::int64_t count, float* sums, const Add& add) {
  for (std::int64_t first = 0; first < count; first += kNumLanes) {
    Lanes each[kNumLanes];
    const std::int64_t some = std::min(kNumLanes, count - first);
    for (std::int64_t index = 0; index < kNumLanes; ++index) {
      Lanes lanes = {};
      if (index < some) add(first + index, lanes);
      each[index] = lanes;
    }
    kv::sum_each(each);
    store(each[0], sums + first);
  }
}

[[gnu::always_inline]] inline const float* weights_at(const RowBlock& block, std::int64_t index) {
  return block.weights + block.positions[static_cast<std::size_t>(index)] * block.rows;
}

[[gnu::always_inline]] inline const float* recorded_at(const StoredRows& rows, Positions positions,
                                                       std::int64_t index) {
  return rows.recorded + positions[static_cast<std::size_t>(index)] * rows.channels;
}
[[gnu::always_inline]] inline const float* entry_at(const StoredRows& rows, Positions positions, std::int64_t index) {
  return rows.entries + rows.entry_of[positions[static_cast<std::size_t>(index)]] * rows.channels;
}

template <bool kWithSquares>
[[gnu::always_inline]] inline void take_errors(const StoredRows& rows, Positions positions, const float* factors,
                                               float* differences, const ErrorSums& sums) {
  const std::int64_t count = std::ssize(positions);
  for (std::int64_t first = 0; first < count; first += kNumLanes) {
    const std::int64_t some = std::min(kNumLanes, count - first);
    Lanes distortions[kNumLanes];
    Lanes squares[kNumLanes];
    Lanes crosses[kNumLanes];
    Lanes lengths[kNumLanes];
    for (std::int64_t index = 0; index < kNumLanes; ++index) {
      // What lies beyond the last position is summed once more.
      const std::int64_t at = first + std::min(index, some - 1);
      const float* recorded = recorded_at(rows, positions, at);
      const float* entry = entry_at(rows, positions, at);
      const float* recorded_ahead = recorded_at(rows, positions, std::min(at + kRowsAhead, count - 1));
      const float* entry_ahead = entry_at(rows, positions, std::min(at + kRowsAhead, count - 1));
      float* to = differences + at * rows.channels;
      Lanes distortion = {};
      Lanes square = {};
      Lanes cross = {};
      Lanes length = {};
      for_channels(
          rows.channels, [&](std::int64_t channel, std::int64_t num) __attribute__((always_inline)) {
            __builtin_prefetch(recorded_ahead + channel);
            __builtin_prefetch(entry_ahead + channel);
            Lanes value, error, factor;
            load(recorded + channel, num, value);
            load(entry + channel, num, error);
            load(factors + channel, num, factor);
            error = value - error;
            store(error, num, to + channel);
            factor *= error;
            distortion += factor * factor;
            if constexpr (kWithSquares) {
              square += error * error;
              cross += value * error;
              length += value * value;
            }
          });
      distortions[index] = distortion;
      squares[index] = square;
      crosses[index] = cross;
      lengths[index] = length;
    }
    kv::sum_each(distortions);
    store(distortions[0], sums.distortions + first);
    if constexpr (kWithSquares) {
      kv::sum_each(squares);
      kv::sum_each(crosses);
      kv::sum_each(lengths);
      store(squares[0], sums.squares + first);
      store(crosses[0], sums.crosses + first);
      store(lengths[0], sums.lengths + first);
    }
  }
}

/// @param lost_at  what a register of rows loses at a position, below 0 what it gains: (position's index, first row, lanes)
template <typename LostAt>
[[gnu::always_inline]] inline void sum_lost(const RowBlock& block, float* of_row, float* sums, const LostAt& lost_at) {
  fold_each(
      std::ssize(block.positions), sums, [&](std::int64_t index, Lanes & sum) __attribute__((always_inline)) {
        for (std::int64_t row = 0; row < block.rows; row += kNumLanes) {
          Lanes lost, of_rows;
          lost_at(index, row, lost);
          lost = lost > 0 ? lost : Lanes{};
          load(of_row + row, of_rows);
          store(of_rows + lost, of_row + row);
          sum += lost;
        }
      });
}

/// @param add  what a position adds to its C and C+: (position's index, two registers)
template <typename Add>
[[gnu::always_inline]] inline void attribute(const RowBlock& block, OutputLosses& losses, const Add& add) {
  const std::int64_t count = std::ssize(block.positions);
  for (std::int64_t first = 0; first < count; first += kNumLanes) {
    const std::int64_t some = std::min(kNumLanes, count - first);
    Lanes of_signed[kNumLanes];
    Lanes of_size[kNumLanes];
    for (std::int64_t index = 0; index < kNumLanes; ++index) {
      Lanes signed_sum = {};
      Lanes size = {};
      if (index < some) add(first + index, signed_sum, size);
      of_signed[index] = signed_sum;
      of_size[index] = size;
    }
    kv::sum_each(of_signed);
    kv::sum_each(of_size);
    store(of_signed[0], losses.signed_loss.data() + first);
    store(of_size[0], losses.loss.data() + first);
  }
}

/// d, h, d^2 and d h of one position's rows.
struct RowShares {
  const float* gone = nullptr;
  const float* held = nullptr;
  const float* gone_squared = nullptr;
  const float* gone_held = nullptr;
};

/// `kParts` registers of channels of a position: what they add to C and C+. @param last  channels of the last register
template <std::int64_t kParts>
[[gnu::always_inline]] inline void add_channels(const float* recorded, const float* entry, std::int64_t last,
                                                const float* errors, const float* outputs, std::int64_t channels,
                                                std::int64_t num_rows, const RowShares& shares, Lanes& of_signed,
                                                Lanes& of_size) {
  const auto load_part = [&](const float* from, std::int64_t part, Lanes& lanes) __attribute__((always_inline)) {
    if (part + 1 < kParts || last == kNumLanes) return load(from + part * kNumLanes, lanes);
    load(from + part * kNumLanes, last, lanes);
  };
  Lanes gone[kParts] = {};          // sum of d f e
  Lanes held[kParts] = {};          // of h f e
  Lanes gone_squared[kParts] = {};  // of d^2 f ohat
  Lanes gone_held[kParts] = {};     // of d h f ohat
  for (std::int64_t row = 0; row < num_rows; ++row) {
#pragma GCC unroll 4
    for (std::int64_t part = 0; part < kParts; ++part) {
      Lanes error, output;
      load_part(errors + row * channels, part, error);
      load_part(outputs + row * channels, part, output);
      gone[part] += shares.gone[row] * error;
      held[part] += shares.held[row] * error;
      gone_squared[part] += shares.gone_squared[row] * output;
      gone_held[part] += shares.gone_held[row] * output;
    }
  }
  for (std::int64_t part = 0; part < kParts; ++part) {
    Lanes value, change;
    load_part(recorded, part, value);
    load_part(entry, part, change);
    change = value - change;
    of_signed += value * gone[part] + change * held[part];
    of_size -= 2 * (value * gone_squared[part] + change * gone_held[part]);
  }
}

}  // namespace

KVTIDE_EVERY_VECTOR_WIDTH
void attribute_few_rows(const RowBlock& block, const RowTerms& terms, const StoredRows& values, const float* vectors,
                        std::int64_t num_rows, const VectorSquares& squares, OutputLosses& losses) {
  constexpr std::int64_t kParts = 4;
  const float* const errors = vectors;
  const float* const outputs = vectors + block.rows * values.channels;
  float shares[4][kFewRows];
  attribute(
      block, losses, [&](std::int64_t index, Lanes & of_signed, Lanes & of_size) __attribute__((always_inline)) {
        for (std::int64_t row = 0; row < block.rows; row += kNumLanes) {
          Lanes weight, growth, along, factor, squared;
          load(weights_at(block, index) + row, weight);
          load(block.growths + index * block.growth_stride + row, growth);
          load(terms.along.data() + row, along);
          load(terms.factor.data() + row, factor);
          load(terms.squared.data() + row, squared);
          const Lanes gone = -weight * growth;
          const Lanes held = weight - gone;
          of_signed -= gone * along;
          of_size += gone * gone * (factor * squares.values[index] + squared) +
                     factor * held * (2 * squares.crosses[index] * gone + squares.changes[index] * held);
          store(gone, shares[0] + row);
          store(held, shares[1] + row);
          store(gone * gone, shares[2] + row);
          store(gone * held, shares[3] + row);
        }
        const float* recorded = recorded_at(values, block.positions, index);
        const float* entry = entry_at(values, block.positions, index);
        const RowShares of_rows{shares[0], shares[1], shares[2], shares[3]};
        std::int64_t channel = 0;
        for (; channel + kParts * kNumLanes <= values.channels; channel += kParts * kNumLanes) {
          add_channels<kParts>(recorded + channel, entry + channel, kNumLanes, errors + channel, outputs + channel,
                               values.channels, num_rows, of_rows, of_signed, of_size);
        }
        for (; channel < values.channels; channel += kNumLanes) {
          add_channels<1>(recorded + channel, entry + channel, std::min(kNumLanes, values.channels - channel),
                          errors + channel, outputs + channel, values.channels, num_rows, of_rows, of_signed, of_size);
        }
      });
}

KVTIDE_EVERY_VECTOR_WIDTH
void take_differences(const StoredRows& rows, Positions positions, const float* factors, float* differences,
                      const ErrorSums& sums) {
  if (sums.squares == nullptr) return take_errors<false>(rows, positions, factors, differences, sums);
  take_errors<true>(rows, positions, factors, differences, sums);
}

KVTIDE_EVERY_VECTOR_WIDTH
void take_differences(const StoredRows& rows, Positions positions, float* differences) {
  for (std::int64_t index = 0; index < std::ssize(positions); ++index) {
    const float* row = recorded_at(rows, positions, index);
    const float* entry = entry_at(rows, positions, index);
    for_channels(
        rows.channels, [&](std::int64_t channel, std::int64_t num) __attribute__((always_inline)) {
          Lanes left, right;
          load(row + channel, num, left);
          load(entry + channel, num, right);
          store(left - right, num, differences + channel);
        });
    differences += rows.channels;
  }
}

KVTIDE_EVERY_VECTOR_WIDTH
void gather(const float* rows, std::int64_t channels, Positions positions, float* gathered) {
  for (std::size_t index = 0; index < positions.size(); ++index) {
    const float* row = rows + positions[index] * channels;
    const float* ahead = rows + positions[std::min(index + kRowsAhead, positions.size() - 1)] * channels;
    for_channels(
        channels, [&](std::int64_t channel, std::int64_t count) __attribute__((always_inline)) {
          __builtin_prefetch(ahead + channel);
          Lanes some;
          load(row + channel, count, some);
          store(some, count, gathered + channel);
        });
    gathered += channels;
  }
}

KVTIDE_EVERY_VECTOR_WIDTH
void squared_lengths(const float* vectors, std::int64_t count, std::int64_t channels, float* sums) {
  fold_each(
      count, sums, [&](std::int64_t index, Lanes & sum) __attribute__((always_inline)) {
        for_channels(
            channels, [&](std::int64_t channel, std::int64_t num) __attribute__((always_inline)) {
              Lanes some;
              load(vectors + index * channels + channel, num, some);
              sum += some * some;
            });
      });
}

KVTIDE_EVERY_VECTOR_WIDTH
bool grow(const RowBlock& block, const float* biases, float* sum) {
  std::int32_t num_large = 0;
  for (std::int64_t index = 0; index < std::ssize(block.positions); ++index) {
    const float* __restrict__ weights = weights_at(block, index);
    float* __restrict__ growths = block.growths + index * block.growth_stride;
    float* __restrict__ sums = sum;
    const float bias = biases[index];
    for (std::int64_t first = 0; first < block.rows; first += kNumLanes) {
      for (std::int64_t row = first; row < first + kNumLanes; ++row) {
        const float exponent = growths[row] + bias;
        num_large += exponent < kLargestExponent ? 0 : 1;
        const float growth = kv::exponential_minus_one(exponent < kLargestExponent ? exponent : kLargestExponent);
        growths[row] = growth;
        sums[row] -= weights[row] * growth;
      }
    }
  }
  return num_large == 0;
}

KVTIDE_EVERY_VECTOR_WIDTH
void split_weights(const RowBlock& block, float* gone, float* held) {
  for (std::int64_t index = 0; index < std::ssize(block.positions); ++index) {
    for (std::int64_t row = 0; row < block.rows; row += kNumLanes) {
      Lanes weight, growth;
      load(weights_at(block, index) + row, weight);
      load(block.growths + index * block.growth_stride + row, growth);
      const Lanes grown = weight * growth;
      store(-grown, gone + index * block.rows + row);
      store(weight + grown, held + index * block.rows + row);
    }
  }
}

KVTIDE_EVERY_VECTOR_WIDTH
void lost_of_changed(const RowBlock& block, const float* shrink, float* of_row, float* sums) {
  sum_lost(
      block, of_row, sums, [&](std::int64_t index, std::int64_t row, Lanes & lost) __attribute__((always_inline)) {
        Lanes weight, growth, share;
        load(weights_at(block, index) + row, weight);
        load(block.growths + index * block.growth_stride + row, growth);
        load(shrink + row, share);
        const Lanes gone = -weight * growth;
        lost = gone + (weight - gone) * share;
      });
}

KVTIDE_EVERY_VECTOR_WIDTH
void lost_of_untouched(const RowBlock& block, const float* shrink, float* of_row, float* sums) {
  sum_lost(
      block, of_row, sums, [&](std::int64_t index, std::int64_t row, Lanes & lost) __attribute__((always_inline)) {
        Lanes weight, share;
        load(weights_at(block, index) + row, weight);
        load(shrink + row, share);
        lost = weight * share;
      });
}

KVTIDE_EVERY_VECTOR_WIDTH
void attribute_evicted(const RowBlock& block, const RowTerms& terms, const VectorProducts& products,
                       const VectorSquares& squares, OutputLosses& losses) {
  attribute(
      block, losses, [&](std::int64_t index, Lanes & of_signed, Lanes & of_size) __attribute__((always_inline)) {
        for (std::int64_t row = 0; row < block.rows; row += kNumLanes) {
          const float* of_value = products.values + index * products.stride + row;
          Lanes weight, with_error, with_output, along, factor, squared;
          load(weights_at(block, index) + row, weight);
          load(of_value, with_error);
          load(of_value + block.rows, with_output);
          load(terms.along.data() + row, along);
          load(terms.factor.data() + row, factor);
          load(terms.squared.data() + row, squared);
          of_signed += weight * (with_error - along);
          of_size += weight * weight * (factor * squares.values[index] - 2 * with_output + squared);
        }
      });
}

KVTIDE_EVERY_VECTOR_WIDTH
void attribute_changed(const RowBlock& block, const RowTerms& terms, const VectorProducts& products,
                       const VectorSquares& squares, OutputLosses& losses) {
  attribute(
      block, losses, [&](std::int64_t index, Lanes & of_signed, Lanes & of_size) __attribute__((always_inline)) {
        for (std::int64_t row = 0; row < block.rows; row += kNumLanes) {
          const float* of_value = products.values + index * products.stride + row;
          const float* of_change = products.changes + index * products.stride + row;
          Lanes weight, growth, with_error, with_output, change_error, change_output, along, factor, squared;
          load(weights_at(block, index) + row, weight);
          load(block.growths + index * block.growth_stride + row, growth);
          load(of_value, with_error);
          load(of_value + block.rows, with_output);
          load(of_change, change_error);
          load(of_change + block.rows, change_output);
          load(terms.along.data() + row, along);
          load(terms.factor.data() + row, factor);
          load(terms.squared.data() + row, squared);
          const Lanes gone = -weight * growth;
          const Lanes held = weight - gone;
          of_signed += gone * (with_error - along) + held * change_error;
          const Lanes far = factor * squares.values[index] - 2 * with_output + squared;
          const Lanes both = factor * squares.crosses[index] - change_output;
          of_size += gone * (gone * far + 2 * held * both) + held * held * (factor * squares.changes[index]);
        }
      });
}

}  // namespace kvtide::loss

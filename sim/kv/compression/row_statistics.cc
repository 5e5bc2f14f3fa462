#include "kv/compression/row_statistics.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/vector_width.h"
#include "kv/compression/dot_products.h"
#include "kv/compression/lanes.h"

namespace kvtide::kv {
namespace {

constexpr std::int64_t kLanes = kNumLanes;
constexpr std::int64_t kRowsAhead = 32;   ///< asked for before their turn: rows come from far away
constexpr std::int64_t kRowsAtOnce = 64;  ///< summed in float32 before float64 takes over

/// Sixteen rows from `first` on; beyond the last one it again, so that no sum of sixteen needs another way for the rest.
struct SixteenRows {
  const float* begin[kLanes];
};

inline SixteenRows sixteen_rows(const float* rows, std::int64_t stride, std::int64_t first, std::int64_t num_rows) {
  SixteenRows of;
  for (std::int64_t row = 0; row < kLanes; ++row) of.begin[row] = rows + std::min(first + row, num_rows - 1) * stride;
  return of;
}

/// @param lengths  [num_rows rounded up to 16]
KVTIDE_EVERY_VECTOR_WIDTH
void squared_lengths_of(const float* rows, std::int64_t stride, std::int64_t num_rows, std::int64_t channels,
                        float* lengths) {
  const std::int64_t whole = channels / kLanes * kLanes;
  for (std::int64_t first = 0; first < num_rows; first += kLanes) {
    const SixteenRows of = sixteen_rows(rows, stride, first, num_rows);
    Lanes sums[kLanes] = {};
    for (std::int64_t channel = 0; channel < whole; channel += kLanes) {
      for (std::int64_t row = 0; row < kLanes; ++row) {
        Lanes own;
        load(of.begin[row] + channel, own);
        __builtin_prefetch(of.begin[row] + kRowsAhead * stride + channel);
        sums[row] += own * own;
      }
    }
    sum_each(sums);
    store(sums[0], lengths + first);
    for (std::int64_t channel = whole; channel < channels; ++channel) {
      for (std::int64_t row = 0; row < kLanes; ++row) {
        lengths[first + row] += of.begin[row][channel] * of.begin[row][channel];
      }
    }
  }
}

/// Up to 16 rows, [16, padded], channels beyond the last one zero. @param upper  [padded, padded], what lies left of the
/// diagonal's 16 x 16 blocks unread
KVTIDE_EVERY_VECTOR_WIDTH
void quadratic_forms_of(const float* rows, std::int64_t padded, const float* upper, float* forms) {
  Lanes totals[kLanes] = {};
  for (std::int64_t first = 0; first < padded; first += kLanes) {
    Lanes sums[kLanes] = {};
    for (std::int64_t term = 0; term < first + kLanes; ++term) {
      Lanes columns;
      load(upper + term * padded + first, columns);
      for (std::int64_t row = 0; row < kLanes; ++row) sums[row] += rows[row * padded + term] * columns;
    }
    for (std::int64_t row = 0; row < kLanes; ++row) {
      Lanes own;
      load(rows + row * padded + first, own);
      totals[row] += sums[row] * own;
    }
  }
  sum_each(totals);
  store(totals[0], forms);
}

/// One 16 x 16 block of the Gram matrix of `num_rows` rows. @param left, right  the block's channels of the first row
KVTIDE_EVERY_VECTOR_WIDTH
void gram_block(const float* left, const float* right, std::int64_t padded, std::int64_t num_rows, float* block) {
  Lanes sums[kLanes] = {};
  for (std::int64_t row = 0; row < num_rows; ++row) {
    Lanes columns;
    load(right + row * padded, columns);
    for (std::int64_t channel = 0; channel < kLanes; ++channel) sums[channel] += left[row * padded + channel] * columns;
  }
  for (std::int64_t channel = 0; channel < kLanes; ++channel) {
    store(sums[channel], block + channel * kLanes);
  }
}

KVTIDE_EVERY_VECTOR_WIDTH
void change_rows(const float* rows, std::int64_t stride, std::int64_t num_rows, std::int64_t channels,
                 std::int64_t padded, const float* centre, const float* factors, float* changed) {
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const float* from = rows + row * stride;
    const float factor = factors != nullptr ? factors[row] : 1.0F;
    float* to = changed + row * padded;
    if (centre != nullptr) {
      for (std::int64_t channel = 0; channel < channels; ++channel)
        to[channel] = factor * (from[channel] - centre[channel]);
    } else {
      for (std::int64_t channel = 0; channel < channels; ++channel) to[channel] = factor * from[channel];
    }
  }
}

KVTIDE_EVERY_VECTOR_WIDTH
void channel_bounds(const float* rows, std::int64_t stride, std::int64_t num_rows, std::int64_t channels, float* lowest,
                    float* highest) {
  // Four registers at a time: each bound waits for the one before it.
  constexpr std::int64_t kParts = 4;
  std::int64_t first = 0;
  for (; first + kParts * kLanes <= channels; first += kParts * kLanes) {
    Lanes low[kParts];
    Lanes high[kParts];
    for (std::int64_t part = 0; part < kParts; ++part) {
      load(rows + first + part * kLanes, low[part]);
      high[part] = low[part];
    }
    for (std::int64_t row = 1; row < num_rows; ++row) {
      for (std::int64_t part = 0; part < kParts; ++part) {
        Lanes own;
        load(rows + row * stride + first + part * kLanes, own);
        __builtin_prefetch(rows + (row + kRowsAhead) * stride + first + part * kLanes);
        low[part] = own < low[part] ? own : low[part];
        high[part] = own > high[part] ? own : high[part];
      }
    }
    for (std::int64_t part = 0; part < kParts; ++part) {
      store(low[part], lowest + first + part * kLanes);
      store(high[part], highest + first + part * kLanes);
    }
  }
  for (std::int64_t channel = first; channel < channels; ++channel) {
    lowest[channel] = highest[channel] = rows[channel];
    for (std::int64_t row = 1; row < num_rows; ++row) {
      lowest[channel] = std::min(lowest[channel], rows[row * stride + channel]);
      highest[channel] = std::max(highest[channel], rows[row * stride + channel]);
    }
  }
}

/// @param inverse     [channel] 1 / (highest - lowest)
/// @param deviations  [num_rows rounded up to 16]
KVTIDE_EVERY_VECTOR_WIDTH
void deviations_of(const float* rows, std::int64_t stride, std::int64_t num_rows, std::int64_t channels,
                   const float* lowest, const float* inverse, float* deviations) {
  const std::int64_t whole = channels / kLanes * kLanes;
  for (std::int64_t first = 0; first < num_rows; first += kLanes) {
    const SixteenRows of = sixteen_rows(rows, stride, first, num_rows);
    Lanes sums[kLanes] = {};
    for (std::int64_t channel = 0; channel < whole; channel += kLanes) {
      Lanes low;
      Lanes scale;
      load(lowest + channel, low);
      load(inverse + channel, scale);
      for (std::int64_t row = 0; row < kLanes; ++row) {
        Lanes own;
        load(of.begin[row] + channel, own);
        sums[row] += (own - low) * scale;
      }
    }
    sum_each(sums);
    float mean[kLanes];
    store(sums[0], mean);
    for (std::int64_t row = 0; row < kLanes; ++row) {
      for (std::int64_t channel = whole; channel < channels; ++channel) {
        mean[row] += (of.begin[row][channel] - lowest[channel]) * inverse[channel];
      }
      mean[row] /= static_cast<float>(channels);
      sums[row] = Lanes{};
    }
    for (std::int64_t channel = 0; channel < whole; channel += kLanes) {
      Lanes low;
      Lanes scale;
      load(lowest + channel, low);
      load(inverse + channel, scale);
      for (std::int64_t row = 0; row < kLanes; ++row) {
        Lanes own;
        load(of.begin[row] + channel, own);
        own = (own - low) * scale - mean[row];
        sums[row] += own * own;
      }
    }
    sum_each(sums);
    float* squares = deviations + first;
    store(sums[0], squares);
    for (std::int64_t row = 0; row < kLanes; ++row) {
      for (std::int64_t channel = whole; channel < channels; ++channel) {
        const float off = (of.begin[row][channel] - lowest[channel]) * inverse[channel] - mean[row];
        squares[row] += off * off;
      }
      squares[row] = std::sqrt(squares[row] / static_cast<float>(channels - 1));
    }
  }
}

}  // namespace

std::vector<float> squared_lengths(const Eigen::Ref<const RowMatrix>& rows, std::int64_t num_rows) {
  std::vector<float> lengths(static_cast<std::size_t>(whole_lanes(num_rows)));
  squared_lengths_of(rows.data(), rows.outerStride(), num_rows, rows.cols(), lengths.data());
  lengths.resize(static_cast<std::size_t>(num_rows));
  return lengths;
}

Eigen::VectorXd weighted_sum(const Eigen::Ref<const RowMatrix>& rows, std::span<const float> weights,
                             const std::int64_t* chosen) {
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(rows.cols());
  Eigen::VectorXf part(rows.cols());
  for (std::int64_t first = 0; first < std::ssize(weights); first += kRowsAtOnce) {
    const std::int64_t count = std::min(kRowsAtOnce, std::ssize(weights) - first);
    const float* begin = chosen != nullptr ? rows.data() : rows.data() + first * rows.outerStride();
    part.setZero();
    add_scaled_rows(begin, rows.outerStride(), count, rows.cols(), weights.data() + first, part.data(),
                    chosen != nullptr ? chosen + first : nullptr);
    sum += part.cast<double>();
  }
  return sum;
}

std::vector<float> quadratic_forms(const Eigen::Ref<const RowMatrix>& rows,
                                   const Eigen::Ref<const Eigen::MatrixXd>& matrix, std::span<const float> centre) {
  const std::int64_t channels = rows.cols();
  KVTIDE_ASSERT(matrix.rows() == channels && matrix.cols() == channels, "a form of as many channels");
  const std::int64_t padded = whole_lanes(channels);
  // What lies below the diagonal counts above it.
  RowMatrix upper = RowMatrix::Zero(padded, padded);
  for (std::int64_t row = 0; row < channels; ++row) {
    upper(row, row) = static_cast<float>(matrix(row, row));
    for (std::int64_t column = row + 1; column < channels; ++column) {
      upper(row, column) = static_cast<float>(2 * matrix(row, column));
    }
  }
  std::vector<float> forms(static_cast<std::size_t>((rows.rows() + kLanes - 1) / kLanes * kLanes));
  RowMatrix part = RowMatrix::Zero(kLanes, padded);
  for (std::int64_t first = 0; first < rows.rows(); first += kLanes) {
    const std::int64_t count = std::min(kLanes, rows.rows() - first);
    const bool is_in_place = count == kLanes && padded == channels && rows.outerStride() == channels && centre.empty();
    if (!is_in_place) {
      change_rows(rows.data() + first * rows.outerStride(), rows.outerStride(), count, channels, padded,
                  centre.empty() ? nullptr : centre.data(), nullptr, part.data());
    }
    quadratic_forms_of(is_in_place ? rows.data() + first * channels : part.data(), padded, upper.data(),
                       forms.data() + first);
  }
  forms.resize(static_cast<std::size_t>(rows.rows()));
  return forms;
}

Eigen::MatrixXd gram(const Eigen::Ref<const RowMatrix>& rows, std::span<const float> centre,
                     std::span<const float> factors) {
  const std::int64_t channels = rows.cols();
  const std::int64_t padded = whole_lanes(channels);
  RowMatrix part = RowMatrix::Zero(kRowsAtOnce, padded);
  Eigen::MatrixXd sum = Eigen::MatrixXd::Zero(padded, padded);
  float block[kLanes * kLanes];
  for (std::int64_t first = 0; first < rows.rows(); first += kRowsAtOnce) {
    const std::int64_t count = std::min(kRowsAtOnce, rows.rows() - first);
    change_rows(rows.data() + first * rows.outerStride(), rows.outerStride(), count, channels, padded,
                centre.empty() ? nullptr : centre.data(), factors.empty() ? nullptr : factors.data() + first,
                part.data());
    for (std::int64_t left = 0; left < padded; left += kLanes) {
      for (std::int64_t right = left; right < padded; right += kLanes) {
        gram_block(part.data() + left, part.data() + right, padded, count, block);
        for (std::int64_t channel = 0; channel < kLanes; ++channel) {
          for (std::int64_t lane = 0; lane < kLanes; ++lane) {
            sum(right + lane, left + channel) += static_cast<double>(block[channel * kLanes + lane]);
          }
        }
      }
    }
  }
  return sum.topLeftCorner(channels, channels).selfadjointView<Eigen::Lower>();
}

std::vector<float> scaled_deviations(const Eigen::Ref<const RowMatrix>& rows,
                                     const Eigen::Ref<const RowMatrix>& scale_rows) {
  const std::int64_t channels = rows.cols();
  std::vector<float> lowest(static_cast<std::size_t>(channels));
  std::vector<float> inverse(lowest.size());
  channel_bounds(scale_rows.data(), scale_rows.outerStride(), scale_rows.rows(), channels, lowest.data(),
                 inverse.data());
  for (std::size_t channel = 0; channel < lowest.size(); ++channel) {
    inverse[channel] = 1.0F / (inverse[channel] - lowest[channel]);
  }
  std::vector<float> deviations(static_cast<std::size_t>(whole_lanes(rows.rows())));
  deviations_of(rows.data(), rows.outerStride(), rows.rows(), channels, lowest.data(), inverse.data(),
                deviations.data());
  deviations.resize(static_cast<std::size_t>(rows.rows()));
  return deviations;
}

}  // namespace kvtide::kv

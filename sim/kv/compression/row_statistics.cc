#include "kv/compression/row_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/vector_width.h"
#include "kv/compression/dot_products.h"

namespace kvtide::kv {
namespace {

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kRowsAtOnce = 64;  ///< summed in float32 before float64 takes over

/// Sixteen floats as the compiler keeps them: left to itself it shuffles a square of sums instead of widening its rows.
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

std::int64_t whole_lanes(std::int64_t channels) {
  return (channels + kLanes - 1) / kLanes * kLanes;
}

inline float sum_of_lanes(const float* lanes) {
  float eight[8];
  for (std::int64_t lane = 0; lane < 8; ++lane) eight[lane] = lanes[lane] + lanes[lane + 8];
  float four[4];
  for (std::int64_t lane = 0; lane < 4; ++lane) four[lane] = eight[lane] + eight[lane + 4];
  return (four[0] + four[2]) + (four[1] + four[3]);
}

KVTIDE_EVERY_VECTOR_WIDTH
void squared_lengths_of(const float* rows, std::int64_t stride, std::int64_t num_rows, std::int64_t channels,
                        float* lengths) {
  const std::int64_t whole = channels / kLanes * kLanes;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const float* of_row = rows + row * stride;
    float lanes[kLanes] = {};
    for (std::int64_t channel = 0; channel < whole; channel += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += of_row[channel + lane] * of_row[channel + lane];
    }
    float sum = sum_of_lanes(lanes);
    for (std::int64_t channel = whole; channel < channels; ++channel) sum += of_row[channel] * of_row[channel];
    lengths[row] = sum;
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
      std::memcpy(&columns, upper + term * padded + first, sizeof columns);
      for (std::int64_t row = 0; row < kLanes; ++row) sums[row] += rows[row * padded + term] * columns;
    }
    for (std::int64_t row = 0; row < kLanes; ++row) {
      Lanes own;
      std::memcpy(&own, rows + row * padded + first, sizeof own);
      totals[row] += sums[row] * own;
    }
  }
  for (std::int64_t row = 0; row < kLanes; ++row) {
    float lanes[kLanes];
    std::memcpy(lanes, &totals[row], sizeof lanes);
    forms[row] = sum_of_lanes(lanes);
  }
}

/// One 16 x 16 block of the Gram matrix of `num_rows` rows. @param left, right  the block's channels of the first row
KVTIDE_EVERY_VECTOR_WIDTH
void gram_block(const float* left, const float* right, std::int64_t padded, std::int64_t num_rows, float* block) {
  Lanes sums[kLanes] = {};
  for (std::int64_t row = 0; row < num_rows; ++row) {
    Lanes columns;
    std::memcpy(&columns, right + row * padded, sizeof columns);
    for (std::int64_t channel = 0; channel < kLanes; ++channel) sums[channel] += left[row * padded + channel] * columns;
  }
  for (std::int64_t channel = 0; channel < kLanes; ++channel) {
    std::memcpy(block + channel * kLanes, &sums[channel], sizeof sums[channel]);
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
  for (std::int64_t first = 0; first < channels; first += kLanes) {
    const std::int64_t count = std::min(kLanes, channels - first);
    if (count < kLanes) {
      for (std::int64_t channel = first; channel < channels; ++channel) {
        lowest[channel] = highest[channel] = rows[channel];
        for (std::int64_t row = 1; row < num_rows; ++row) {
          lowest[channel] = std::min(lowest[channel], rows[row * stride + channel]);
          highest[channel] = std::max(highest[channel], rows[row * stride + channel]);
        }
      }
      return;
    }
    Lanes low;
    std::memcpy(&low, rows + first, sizeof low);
    Lanes high = low;
    for (std::int64_t row = 1; row < num_rows; ++row) {
      Lanes own;
      std::memcpy(&own, rows + row * stride + first, sizeof own);
      low = own < low ? own : low;
      high = own > high ? own : high;
    }
    std::memcpy(lowest + first, &low, sizeof low);
    std::memcpy(highest + first, &high, sizeof high);
  }
}

/// @param inverse  [padded] 1 / (highest - lowest), 0 beyond the channels; lowest likewise
KVTIDE_EVERY_VECTOR_WIDTH
void deviations_of(const float* rows, std::int64_t stride, std::int64_t num_rows, std::int64_t channels,
                   const float* lowest, const float* inverse, float* scaled, float* deviations) {
  const std::int64_t whole = channels / kLanes * kLanes;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const float* of_row = rows + row * stride;
    float lanes[kLanes] = {};
    for (std::int64_t first = 0; first < whole; first += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        scaled[first + lane] = (of_row[first + lane] - lowest[first + lane]) * inverse[first + lane];
        lanes[lane] += scaled[first + lane];
      }
    }
    float mean = sum_of_lanes(lanes);
    for (std::int64_t channel = whole; channel < channels; ++channel) {
      scaled[channel] = (of_row[channel] - lowest[channel]) * inverse[channel];
      mean += scaled[channel];
    }
    mean /= static_cast<float>(channels);
    for (float& lane : lanes) lane = 0;
    for (std::int64_t first = 0; first < whole; first += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        const float off = scaled[first + lane] - mean;
        lanes[lane] += off * off;
      }
    }
    float squares = sum_of_lanes(lanes);
    for (std::int64_t channel = whole; channel < channels; ++channel) {
      squares += (scaled[channel] - mean) * (scaled[channel] - mean);
    }
    deviations[row] = std::sqrt(squares / static_cast<float>(channels - 1));
  }
}

}  // namespace

std::vector<float> squared_lengths(const Eigen::Ref<const RowMatrix>& rows, std::int64_t num_rows) {
  std::vector<float> lengths(static_cast<std::size_t>(num_rows));
  squared_lengths_of(rows.data(), rows.outerStride(), num_rows, rows.cols(), lengths.data());
  return lengths;
}

Eigen::VectorXd weighted_sum(const Eigen::Ref<const RowMatrix>& rows, std::span<const float> weights) {
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(rows.cols());
  Eigen::VectorXf part(rows.cols());
  for (std::int64_t first = 0; first < rows.rows(); first += kRowsAtOnce) {
    const std::int64_t count = std::min(kRowsAtOnce, rows.rows() - first);
    part.setZero();
    add_scaled_rows(rows.data() + first * rows.outerStride(), rows.outerStride(), count, rows.cols(),
                    weights.data() + first, part.data());
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
  std::vector<float> scaled(lowest.size());
  std::vector<float> deviations(static_cast<std::size_t>(rows.rows()));
  deviations_of(rows.data(), rows.outerStride(), rows.rows(), channels, lowest.data(), inverse.data(), scaled.data(),
                deviations.data());
  return deviations;
}

}  // namespace kvtide::kv

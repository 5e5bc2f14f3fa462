#include "loss/bits_lost.h"

#include <algorithm>
#include <cmath>

#include "base/vector_width.h"

namespace kvtide::loss {
namespace {

constexpr std::int64_t kLanes = 16;

/// Mean over the channels that vary of their squared error in units of their variance. Channels that do not: 0 in `inverse`.
KVTIDE_EVERY_VECTOR_WIDTH
double distortion(const float* truth, const float* stored, const double* inverse, std::int64_t channels) {
  double errors[kLanes] = {};
  double varying[kLanes] = {};
  const auto add = [&](std::int64_t channel, std::int64_t lane) {
    const double error = static_cast<double>(truth[channel]) - static_cast<double>(stored[channel]);
    errors[lane] += error * error * inverse[channel];
    varying[lane] += inverse[channel] > 0 ? 1.0 : 0.0;
  };
  std::int64_t channel = 0;
  for (; channel + kLanes <= channels; channel += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) add(channel + lane, lane);
  }
  for (; channel < channels; ++channel) add(channel, 0);
  double sum = 0;
  double count = 0;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    sum += errors[lane];
    count += varying[lane];
  }
  return count > 0 ? sum / count : 0;
}

/// Adds each channel's distances from its first row, and their squares: of a constant channel both are exactly 0.
KVTIDE_EVERY_VECTOR_WIDTH
void add_moments(const float* rows, std::int64_t num_rows, std::int64_t channels, double* __restrict__ sums,
                 double* __restrict__ squares) {
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const float* of_row = rows + row * channels;
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      const double distance = static_cast<double>(of_row[channel]) - static_cast<double>(rows[channel]);
      sums[channel] += distance;
      squares[channel] += distance * distance;
    }
  }
}

double bits_of(const kv::RowMatrix& truth, std::int64_t position, const kv::RowMatrix& stored, std::int64_t entry,
               const std::vector<double>& inverse) {
  return bits_lost_at_distortion(
      distortion(truth.row(position).data(), stored.row(entry).data(), inverse.data(), truth.cols()));
}

}  // namespace

double bits_lost_at_distortion(double distortion) {
  static const double kReferenceError = std::exp2(-2 * kFp16Bits);
  if (!(distortion > kReferenceError)) return 0;
  return 0.5 * std::log2(std::min(distortion, 1.0) / kReferenceError);
}

std::vector<double> inverse_variance(const kv::RowMatrix& rows) {
  const auto channels = static_cast<std::size_t>(rows.cols());
  std::vector<double> sums(channels, 0.0);
  std::vector<double> inverse(channels, 0.0);
  add_moments(rows.data(), rows.rows(), rows.cols(), sums.data(), inverse.data());
  const auto num_rows = static_cast<double>(rows.rows());
  for (std::size_t channel = 0; channel < channels; ++channel) {
    const double squares = inverse[channel] - sums[channel] * sums[channel] / num_rows;
    inverse[channel] = squares > 0 ? num_rows / squares : 0;
  }
  return inverse;
}

std::vector<double> bits_lost(const HeadReference& reference, const TouchedPositions& touched,
                              const kv::EntryTable& table) {
  std::vector<double> bits(touched.state.size(), 0.0);
  for (const std::int32_t j : touched.evicted) bits[static_cast<std::size_t>(j)] = kFp16Bits;
  for (const std::int32_t j : touched.changed_positions) {
    const std::int32_t entry = table.entry_of[static_cast<std::size_t>(j)];
    bits[static_cast<std::size_t>(j)] = 0.5 * (bits_of(reference.k, j, table.k, entry, reference.k_inverse_variance) +
                                               bits_of(reference.v, j, table.v, entry, reference.v_inverse_variance));
  }
  return bits;
}

}  // namespace kvtide::loss

#include "loss/bits_lost.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/vector_width.h"
#include "kv/compression/lanes.h"
#include "loss/eight_numbers.h"
#include "loss/replay_rows.h"

namespace kvtide::loss {
namespace {

/// Adds each channel's distances from its first row, and their squares: of a constant channel both are exactly 0.
KVTIDE_EVERY_VECTOR_WIDTH
void add_moments(const float* rows, std::int64_t num_rows, std::int64_t channels, double* sums, double* squares) {
  std::int64_t first = 0;
  for (; first + 8 <= channels; first += 8) {
    Eight origin;
    Eight distance;
    load(rows + first, origin);
    Eight sum = {};
    Eight square = {};
    for (std::int64_t row = 0; row < num_rows; ++row) {
      load(rows + row * channels + first, distance);
      distance -= origin;
      sum += distance;
      square += distance * distance;
    }
    store(sum, sums + first);
    store(square, squares + first);
  }
  for (; first < channels; ++first) {
    for (std::int64_t row = 0; row < num_rows; ++row) {
      const double distance = static_cast<double>(rows[row * channels + first]) - static_cast<double>(rows[first]);
      sums[first] += distance;
      squares[first] += distance * distance;
    }
  }
}

/// [channel] 0 where constant
std::vector<double> variances(const kv::RowMatrix& rows) {
  const auto channels = static_cast<std::size_t>(rows.cols());
  std::vector<double> sums(channels, 0.0);
  std::vector<double> variances(channels, 0.0);
  add_moments(rows.data(), rows.rows(), rows.cols(), sums.data(), variances.data());
  const auto num_rows = static_cast<double>(rows.rows());
  for (std::size_t channel = 0; channel < channels; ++channel) {
    variances[channel] = std::max(0.0, (variances[channel] - sums[channel] * sums[channel] / num_rows) / num_rows);
  }
  return variances;
}

double reference_distortion() {
  static const double kDistortion = std::exp2(-2 * kFp16Bits);
  return kDistortion;
}

/// In units of fp16's own, up to that of nothing kept.
double relative_distortion(double distortion) {
  const double bounded = distortion > reference_distortion() ? std::min(distortion, 1.0) : reference_distortion();
  return bounded / reference_distortion();
}

}  // namespace

double bits_lost_at_distortion(double distortion) {
  return 0.5 * std::log2(relative_distortion(distortion));
}

std::vector<float> distortion_factors(const kv::RowMatrix& rows) {
  const std::vector<double> of_channels = variances(rows);
  const auto varying = std::ranges::count_if(of_channels, [](double variance) { return variance > 0; });
  std::vector<float> factors;
  for (const double variance : of_channels) {
    const double factor = variance > 0 ? 1 / std::sqrt(variance * static_cast<double>(varying)) : 0.0;
    factors.push_back(static_cast<float>(std::min(factor, static_cast<double>(std::numeric_limits<float>::max()))));
  }
  return factors;
}

Distortions::Distortions(std::int64_t num_changed)
    : keys(static_cast<std::size_t>(kv::whole_lanes(num_changed))), values(keys.size()) {}

std::vector<double> bits_lost(const TouchedPositions& touched, const Distortions& distortions) {
  std::vector<double> bits(touched.state.size(), 0.0);
  for (const std::int32_t j : touched.evicted) bits[static_cast<std::size_t>(j)] = kFp16Bits;
  for (std::size_t index = 0; index < touched.changed_positions.size(); ++index) {
    // One logarithm for both: each is a factor of it.
    const double product = relative_distortion(static_cast<double>(distortions.keys[index])) *
                           relative_distortion(static_cast<double>(distortions.values[index]));
    bits[static_cast<std::size_t>(touched.changed_positions[index])] = 0.25 * std::log2(product);
  }
  return bits;
}

std::vector<double> bits_lost(const HeadReference& reference, const TouchedPositions& touched,
                              const kv::EntryTable& table) {
  constexpr std::int64_t kAtOnce = 128;
  const Positions changed = touched.changed_positions;
  Distortions distortions(std::ssize(changed));
  kv::RowMatrix differences(kAtOnce, reference.k.cols());
  for (std::int64_t first = 0; first < std::ssize(changed); first += kAtOnce) {
    const std::int64_t count = std::min(kAtOnce, std::ssize(changed) - first);
    const Positions some = changed.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    const auto measure = [&](const kv::RowMatrix& recorded, const kv::RowMatrix& entries,
                             const std::vector<float>& factors, std::vector<float>& of_rows) {
      take_differences({recorded.data(), entries.data(), table.entry_of.data(), recorded.cols()}, some, factors.data(),
                       differences.data(), {.distortions = of_rows.data() + first});
    };
    measure(reference.k, table.k, reference.k_distortion_factors, distortions.keys);
    measure(reference.v, table.v, reference.v_distortion_factors, distortions.values);
  }
  return bits_lost(touched, distortions);
}

}  // namespace kvtide::loss

#include "kv/rope.h"

#include <cmath>
#include <vector>

namespace kvtide::kv {

namespace {

/// Radians a token, [pair].
std::vector<double> frequencies(double theta, std::size_t head_dim) {
  std::vector<double> result(head_dim / 2);
  for (std::size_t pair_index = 0; pair_index < result.size(); ++pair_index) {
    result[pair_index] = std::pow(theta, -2.0 * static_cast<double>(pair_index) / static_cast<double>(head_dim));
  }
  return result;
}

void rotate_row(std::span<float> row, double position, const std::vector<double>& frequency) {
  const std::size_t half = frequency.size();
  for (std::size_t pair_index = 0; pair_index < half; ++pair_index) {
    const double angle = position * frequency[pair_index];
    const double cosine = std::cos(angle);
    const double sine = std::sin(angle);
    const double first = row[pair_index];
    const double second = row[pair_index + half];
    row[pair_index] = static_cast<float>(first * cosine - second * sine);
    row[pair_index + half] = static_cast<float>(second * cosine + first * sine);
  }
}

}  // namespace

void Rope::rotate(std::span<float> row, double position) const {
  if (theta != 0) rotate_row(row, position, frequencies(theta, row.size()));
}

void Rope::rotate_rows(float* rows, std::int64_t count, std::int64_t head_dim,
                       std::span<const std::int64_t> positions) const {
  if (theta == 0) return;
  const auto columns = static_cast<std::size_t>(head_dim);
  const std::vector<double> frequency = frequencies(theta, columns);
  for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row) {
    rotate_row({rows + row * columns, columns}, static_cast<double>(positions[row % positions.size()]), frequency);
  }
}

double Rope::wavelength(std::int64_t pair_index, std::int64_t head_dim) const {
  return 6.283185307179586 * std::pow(theta, 2.0 * static_cast<double>(pair_index) / static_cast<double>(head_dim));
}

}  // namespace kvtide::kv

#include "kv/rope.h"

#include <cmath>

namespace kvtide::kv {

void Rope::rotate(std::span<float> row, double position) const {
  if (theta == 0) return;
  const std::size_t half = row.size() / 2;
  for (std::size_t pair_index = 0; pair_index < half; ++pair_index) {
    const double frequency = std::pow(theta, -2.0 * static_cast<double>(pair_index) / static_cast<double>(row.size()));
    const double angle = position * frequency;
    const double cosine = std::cos(angle);
    const double sine = std::sin(angle);
    const double first = row[pair_index];
    const double second = row[pair_index + half];
    row[pair_index] = static_cast<float>(first * cosine - second * sine);
    row[pair_index + half] = static_cast<float>(second * cosine + first * sine);
  }
}

double Rope::wavelength(std::int64_t pair_index, std::int64_t head_dim) const {
  return 6.283185307179586 * std::pow(theta, 2.0 * static_cast<double>(pair_index) / static_cast<double>(head_dim));
}

}  // namespace kvtide::kv

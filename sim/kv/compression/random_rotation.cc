#include "kv/compression/random_rotation.h"

#include <bit>
#include <cmath>

#include "base/error.h"
#include "base/random.h"

namespace kvtide::kv {
namespace {

void hadamard(std::span<float> row) {
  for (std::size_t width = 1; width < row.size(); width *= 2) {
    for (std::size_t begin = 0; begin < row.size(); begin += 2 * width) {
      for (std::size_t index = begin; index < begin + width; ++index) {
        const float left = row[index];
        const float right = row[index + width];
        row[index] = left + right;
        row[index + width] = left - right;
      }
    }
  }
  const float scale = 1.0F / std::sqrt(static_cast<float>(row.size()));
  for (float& element : row) element *= scale;
}

}  // namespace

RandomRotation::RandomRotation(std::size_t num_channels) {
  KVTIDE_ASSERT(std::has_single_bit(num_channels), "a Hadamard transform has a power of two channels");
  RandomStream stream(num_channels, "random_rotation");
  for (std::size_t channel = 0; channel < num_channels; ++channel)
    signs_.push_back(stream.below(2) == 0 ? 1.0F : -1.0F);
}

void RandomRotation::rotate(std::span<float> row) const {
  for (std::size_t channel = 0; channel < row.size(); ++channel) row[channel] *= signs_[channel];
  hadamard(row);
}

void RandomRotation::rotate_back(std::span<float> row) const {
  hadamard(row);
  for (std::size_t channel = 0; channel < row.size(); ++channel) row[channel] *= signs_[channel];
}

}  // namespace kvtide::kv

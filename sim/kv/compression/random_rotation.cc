#include "kv/compression/random_rotation.h"

#include <bit>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "base/vector_width.h"
#include "kv/compression/lanes.h"

namespace kvtide::kv {
namespace {

/// Lanes `kWidth` apart become their sum and their difference.
template <std::size_t kWidth, std::size_t... kLane>
[[gnu::always_inline]] inline void add_and_subtract(Lanes& lanes, std::index_sequence<kLane...> /*lanes*/) {
  constexpr Lanes kSigns = {((kLane & kWidth) == 0 ? 1.0F : -1.0F)...};
  lanes = lanes * kSigns + __builtin_shufflevector(lanes, lanes, static_cast<int>(kLane ^ kWidth)...);
}

KVTIDE_EVERY_VECTOR_WIDTH
void hadamard(float* row, std::size_t size, float scale) {
  constexpr auto kEach = std::make_index_sequence<kNumLanes>();
  std::size_t width = 1;
  if (size >= kNumLanes) {
    for (std::size_t first = 0; first < size; first += kNumLanes) {
      Lanes lanes;
      load(row + first, lanes);
      add_and_subtract<1>(lanes, kEach);
      add_and_subtract<2>(lanes, kEach);
      add_and_subtract<4>(lanes, kEach);
      add_and_subtract<8>(lanes, kEach);
      store(lanes, row + first);
    }
    width = kNumLanes;
  }
  for (; width < size; width *= 2) {
    for (std::size_t begin = 0; begin < size; begin += 2 * width) {
      float* const left = row + begin;
      float* const right = left + width;
      for (std::size_t index = 0; index < width; ++index) {
        const float sum = left[index] + right[index];
        right[index] = left[index] - right[index];
        left[index] = sum;
      }
    }
  }
  for (std::size_t index = 0; index < size; ++index) row[index] *= scale;
}

void hadamard(std::span<float> row) {
  hadamard(row.data(), row.size(), 1.0F / std::sqrt(static_cast<float>(row.size())));
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

// Compiled with finite numbers assumed (smallest and largest of a register at once) and without fused multiply-adds (equal
// numbers at every vector width), for which nothing but language headers may be included.

#include "kv/compression/group_codes.h"

#include <algorithm>

#include "base/vector_width.h"
#include "kv/compression/half_rounding.h"

namespace kvtide::kv {
namespace {

constexpr std::int64_t kAtOnce = 64;  ///< groups whose scales are found together

/// The nearest integer, halves away from zero. |value| below 2^31.
inline float nearest_whole(float value) {
  const auto truncated = static_cast<float>(static_cast<std::int32_t>(value));
  const float rest = value - truncated;
  return truncated + (rest >= 0.5F ? 1.0F : 0.0F) - (rest <= -0.5F ? 1.0F : 0.0F);
}

/// What a value reads back as.
inline float decoded(float value, float zero, float scale, float inverse, const GroupLevels& levels) {
  float code = (value - zero) * inverse;
  code = code > levels.smallest ? code : levels.smallest;
  code = code < levels.largest ? code : levels.largest;
  return nearest_whole(code) * scale + zero;
}

/// Turns the extremes of kAtOnce groups into their zero points (in `low`) and scales (in `high`).
inline void find_scales(float* low, float* high, float* inverse, const GroupLevels& levels) {
  for (std::int64_t group = 0; group < kAtOnce; ++group) {
    const float magnitude = -low[group] > high[group] ? -low[group] : high[group];
    float zero = levels.is_symmetric ? 0.0F : low[group];
    zero = levels.has_half_metadata ? nearest_half(zero) : zero;
    const float range = levels.is_symmetric ? magnitude : high[group] - zero;
    const float scale = range / levels.largest;
    low[group] = zero;
    high[group] = levels.has_half_metadata ? nearest_half(scale) : scale;
    inverse[group] = 1.0F / high[group];
  }
}

}  // namespace

KVTIDE_EVERY_VECTOR_WIDTH
void code_groups(float* values, std::int64_t group, std::int64_t num_groups, const GroupLevels& levels) {
  const GroupLevels known = levels;
  float low[kAtOnce] = {};
  float high[kAtOnce] = {};
  float inverse[kAtOnce];
  for (std::int64_t first = 0; first < num_groups; first += kAtOnce) {
    const std::int64_t count = std::min(kAtOnce, num_groups - first);
    for (std::int64_t index = 0; index < count; ++index) {
      const float* of_group = values + (first + index) * group;
      float smallest = of_group[0];
      float largest = of_group[0];
      for (std::int64_t i = 0; i < group; ++i) {
        smallest = of_group[i] < smallest ? of_group[i] : smallest;
        largest = of_group[i] > largest ? of_group[i] : largest;
      }
      low[index] = smallest;
      high[index] = largest;
    }
    find_scales(low, high, inverse, known);
    for (std::int64_t index = 0; index < count; ++index) {
      float* of_group = values + (first + index) * group;
      const float zero = low[index];
      const float scale = high[index];
      if (scale == 0) {
        std::fill(of_group, of_group + group, zero);
        continue;
      }
      for (std::int64_t i = 0; i < group; ++i) of_group[i] = decoded(of_group[i], zero, scale, inverse[index], known);
    }
  }
}

KVTIDE_EVERY_VECTOR_WIDTH
void code_columns(float* values, std::int64_t stride, std::int64_t num_rows, std::int64_t num_columns,
                  const GroupLevels& levels) {
  const GroupLevels known = levels;
  for (std::int64_t first = 0; first < num_columns; first += kAtOnce) {
    const std::int64_t count = std::min(kAtOnce, num_columns - first);
    float* part = values + first;
    float low[kAtOnce] = {};
    float high[kAtOnce] = {};
    float inverse[kAtOnce];
    std::copy(part, part + count, low);
    std::copy(part, part + count, high);
    for (std::int64_t row = 1; row < num_rows; ++row) {
      const float* of_row = part + row * stride;
      for (std::int64_t column = 0; column < count; ++column) {
        low[column] = of_row[column] < low[column] ? of_row[column] : low[column];
        high[column] = of_row[column] > high[column] ? of_row[column] : high[column];
      }
    }
    find_scales(low, high, inverse, known);
    for (std::int64_t column = 0; column < kAtOnce; ++column)
      inverse[column] = high[column] == 0 ? 0.0F : inverse[column];
    for (std::int64_t row = 0; row < num_rows; ++row) {
      float* of_row = part + row * stride;
      for (std::int64_t column = 0; column < count; ++column) {
        // Scale 0: code 0, which reads back as the zero point.
        of_row[column] = decoded(of_row[column], low[column], high[column], inverse[column], known);
      }
    }
  }
}

KVTIDE_EVERY_VECTOR_WIDTH
void round_to_half(float* values, std::int64_t count) {
  for (std::int64_t index = 0; index < count; ++index) values[index] = nearest_half(values[index]);
}

}  // namespace kvtide::kv

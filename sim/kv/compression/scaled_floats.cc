// Compiled as group_codes.cc is: nothing but language headers may be included.

#include "kv/compression/scaled_floats.h"

#include <algorithm>
#include <bit>

#include "base/vector_width.h"
#include "kv/compression/group_extremes.h"
#include "kv/compression/small_float.h"

namespace kvtide::kv {
namespace {

/// Largest magnitudes of `count` groups, at most kGroupsAtOnce.
[[gnu::always_inline]] inline void find_magnitudes(const float* values, std::int64_t group, std::int64_t count,
                                                   float* magnitudes) {
  float low[kGroupsAtOnce] = {};
  find_extremes(values, group, count, low, magnitudes);
  for (std::int64_t index = 0; index < kGroupsAtOnce; ++index) {
    magnitudes[index] = -low[index] > magnitudes[index] ? -low[index] : magnitudes[index];
  }
}

/// @param scale_of  a group's scale from its largest magnitude
template <typename ScaleOf>
[[gnu::always_inline]] inline void code_groups_of(float* values, std::int64_t group, std::int64_t num_groups,
                                                  const SmallFloat& format, const ScaleOf& scale_of) {
  float scales[kGroupsAtOnce] = {};
  for (std::int64_t first = 0; first < num_groups; first += kGroupsAtOnce) {
    const std::int64_t count = std::min(kGroupsAtOnce, num_groups - first);
    float* part = values + first * group;
    find_magnitudes(part, group, count, scales);
    for (float& scale : scales) scale = scale_of(scale);
    for (std::int64_t index = 0; index < count; ++index) {
      float* of_group = part + index * group;
      const float scale = scales[index];
      const float divisor = scale > 0 ? scale : 1.0F;
      for (std::int64_t i = 0; i < group; ++i) of_group[i] = format.round(of_group[i] / divisor) * scale;
    }
  }
}

/// 2^exponent for -127..127: the least is not a normal number.
[[gnu::always_inline]] inline float power_of_two(std::int32_t exponent) {
  const auto normal = static_cast<std::uint32_t>(exponent + 127) << 23U;
  return std::bit_cast<float>(exponent < -126 ? 1U << 22U : normal);
}

/// @param top  exponent of the format's largest number
[[gnu::always_inline]] inline void code_mx(float* values, std::int64_t num_blocks, const SmallFloat& format,
                                           std::int32_t top) {
  constexpr std::int32_t kLargest = 127;  // E8M0 holds -127..127
  float magnitudes[kGroupsAtOnce] = {};
  float scales[kGroupsAtOnce];
  float inverse[kGroupsAtOnce];
  for (std::int64_t first = 0; first < num_blocks; first += kGroupsAtOnce) {
    const std::int64_t count = std::min(kGroupsAtOnce, num_blocks - first);
    float* part = values + first * kMxBlock;
    find_magnitudes(part, kMxBlock, count, magnitudes);
    for (std::int64_t index = 0; index < kGroupsAtOnce; ++index) {
      // Below the normal numbers the exponent reads lower than it is; both are cut to the same.
      const auto bits = std::bit_cast<std::uint32_t>(magnitudes[index]);
      std::int32_t exponent = static_cast<std::int32_t>(bits >> 23U) - 127 - top;
      exponent = exponent < -kLargest ? -kLargest : exponent;
      scales[index] = power_of_two(exponent);
      inverse[index] = power_of_two(-exponent);
    }
    for (std::int64_t index = 0; index < count; ++index) {
      float* of_block = part + index * kMxBlock;
      for (std::int64_t i = 0; i < kMxBlock; ++i) {
        of_block[i] = format.round(of_block[i] * inverse[index]) * scales[index];
      }
    }
  }
}

[[gnu::always_inline]] inline float largest_magnitude(const float* values, std::int64_t count) {
  float largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float magnitude = __builtin_fabsf(values[i]);
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

}  // namespace

KVTIDE_EVERY_VECTOR_WIDTH
void code_e4m3_groups(float* values, std::int64_t group, std::int64_t num_groups) {
  code_groups_of(values, group, num_groups, kE4M3, [](float magnitude) { return magnitude / kE4M3.largest; });
}

KVTIDE_EVERY_VECTOR_WIDTH
void code_nvfp4(float* values, std::int64_t num_blocks) {
  const float tensor = largest_magnitude(values, num_blocks * kNvBlock) / (kE2M1.largest * kE4M3.largest);
  if (tensor == 0) return;
  code_groups_of(values, kNvBlock, num_blocks, kE2M1,
                 [tensor](float magnitude) { return kE4M3.round(magnitude / kE2M1.largest / tensor) * tensor; });
}

KVTIDE_EVERY_VECTOR_WIDTH
void code_mxfp4(float* values, std::int64_t num_blocks) {
  code_mx(values, num_blocks, kE2M1, 2);
}

KVTIDE_EVERY_VECTOR_WIDTH
void code_mxfp8(float* values, std::int64_t num_blocks) {
  code_mx(values, num_blocks, kE4M3, 8);
}

}  // namespace kvtide::kv

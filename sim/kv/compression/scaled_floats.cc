// Compiled as group_codes.cc is: nothing but language headers may be included.

#include "kv/compression/scaled_floats.h"

#include <algorithm>
#include <bit>

#include "base/vector_width.h"
#include "kv/compression/group_extremes.h"
#include "kv/compression/small_float.h"

namespace kvtide::kv {
namespace {

/// Reciprocals are this much too low, so that a product with one is below the quotient; kAbove times the product is above it.
/// Each of the roundings between is below 2^-24.
constexpr float kBelow = 1 - 0x1p-22F;
constexpr float kAbove = 1 + 0x1p-20F;
constexpr float kSmallestScale = 0x1p-100F;  ///< whose reciprocal is as good as others
constexpr std::int64_t kProductsAtOnce = 256;

/// round(value / scale) * scale by a product, which is cheaper than a quotient.
/// @param group  a multiple of kNumLanes; in all at most kProductsAtOnce values
/// @param inverse  kBelow / scale of each group
/// @return false where a quotient may lie on the other side of a boundary than the product: values are as before
[[gnu::always_inline]] inline bool code_by_products(float* values, std::int64_t group, std::int64_t num_groups,
                                                    const SmallFloat& format, const float* scales,
                                                    const float* inverse) {
  const auto top = std::bit_cast<std::uint32_t>(format.largest);
  float coded[kProductsAtOnce];
  std::uint32_t differing[kNumLanes] = {};
  bool has_reciprocals = true;
  for (std::int64_t index = 0; index < num_groups; ++index) {
    const float factor = inverse[index];
    has_reciprocals = has_reciprocals && scales[index] >= kSmallestScale;
    for (std::int64_t i = index * group; i < (index + 1) * group; i += kNumLanes) {
      for (std::int64_t lane = 0; lane < kNumLanes; ++lane) {
        const auto bits = std::bit_cast<std::uint32_t>(values[i + lane] * factor);
        const std::uint32_t magnitude = bits & kSignless;
        const auto bounded = std::bit_cast<float>(magnitude < top ? magnitude : top);
        const float spacing = format.spacing_at(bounded);
        const float sum = bounded + spacing;
        const float above = bounded * kAbove + spacing;
        differing[lane] |= std::bit_cast<std::uint32_t>(sum) ^ std::bit_cast<std::uint32_t>(above);
        coded[i + lane] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(sum - spacing) | (bits & ~kSignless));
      }
    }
  }
  std::uint32_t any = 0;
  for (const std::uint32_t lane : differing) any |= lane;
  if (any != 0 || !has_reciprocals) return false;
  for (std::int64_t index = 0; index < num_groups; ++index) {
    const float scale = scales[index];
    for (std::int64_t i = index * group; i < (index + 1) * group; ++i) values[i] = coded[i] * scale;
  }
  return true;
}

/// @param scale_of  a group's scale from its largest magnitude
template <typename ScaleOf>
[[gnu::always_inline]] inline void code_groups_of(float* values, std::int64_t group, std::int64_t num_groups,
                                                  const SmallFloat& format, const ScaleOf& scale_of) {
  const bool by_products = group % kNumLanes == 0 && group <= kProductsAtOnce;
  const std::int64_t at_once = by_products ? kProductsAtOnce / group : kGroupsAtOnce;
  float scales[kGroupsAtOnce] = {};
  float inverse[kGroupsAtOnce];
  for (std::int64_t first = 0; first < num_groups; first += kGroupsAtOnce) {
    const std::int64_t count = std::min(kGroupsAtOnce, num_groups - first);
    float* part = values + first * group;
    find_magnitudes(part, group, count, scales);
    for (std::int64_t index = 0; index < kGroupsAtOnce; ++index) {
      scales[index] = scale_of(scales[index]);
      inverse[index] = 1.0F / scales[index] * kBelow;
    }
    for (std::int64_t index = 0; index < count; index += at_once) {
      const std::int64_t some = std::min(at_once, count - index);
      float* of_groups = part + index * group;
      if (by_products && code_by_products(of_groups, group, some, format, scales + index, inverse + index)) continue;
      for (std::int64_t i = 0; i < some * group; ++i) {
        const float scale = scales[index + i / group];
        of_groups[i] = format.round_number(of_groups[i] / (scale > 0 ? scale : 1.0F)) * scale;
      }
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
        of_block[i] = format.round_number(of_block[i] * inverse[index]) * scales[index];
      }
    }
  }
}

[[gnu::always_inline]] inline float largest_magnitude(const float* values, std::int64_t count) {
  constexpr std::int64_t kRegisters = 4;  // each waits for its former maximum
  float lanes[kRegisters * kNumLanes] = {};
  std::int64_t i = 0;
  for (; i + kRegisters * kNumLanes <= count; i += kRegisters * kNumLanes) {
    for (std::int64_t lane = 0; lane < kRegisters * kNumLanes; ++lane) {
      const float magnitude = __builtin_fabsf(values[i + lane]);
      lanes[lane] = magnitude > lanes[lane] ? magnitude : lanes[lane];
    }
  }
  for (; i < count; ++i) lanes[0] = __builtin_fabsf(values[i]) > lanes[0] ? __builtin_fabsf(values[i]) : lanes[0];
  float largest = 0;
  for (const float lane : lanes) largest = lane > largest ? lane : largest;
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
                 [tensor](float magnitude) { return kE4M3.round_number(magnitude / kE2M1.largest / tensor) * tensor; });
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

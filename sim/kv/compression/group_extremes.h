#pragma once
// Smallest and largest values of many groups, and rounding to whole codes: shared by the kernels that store values in groups.
// For files that are compiled as group_codes.cc is (see sim/CMakeLists.txt), and always inlined: by themselves these would be
// compiled for the narrowest registers.

#include <cstdint>

namespace kvtide::kv {

inline constexpr std::int64_t kGroupsAtOnce = 64;  ///< groups whose scales are found together

/// @param values  [count, group], one after another; `group` a constant where the caller knows it
/// @param count   0..kGroupsAtOnce
[[gnu::always_inline]] inline void find_extremes(const float* values, std::int64_t group, std::int64_t count,
                                                 float* low, float* high) {
  for (std::int64_t index = 0; index < count; ++index) {
    const float* of_group = values + index * group;
    float smallest = of_group[0];
    float largest = of_group[0];
    for (std::int64_t i = 0; i < group; ++i) {
      smallest = of_group[i] < smallest ? of_group[i] : smallest;
      largest = of_group[i] > largest ? of_group[i] : largest;
    }
    low[index] = smallest;
    high[index] = largest;
  }
}

/// The number without what follows its point. |value| below 2^31.
[[gnu::always_inline]] inline float truncated(float value) {
  return static_cast<float>(static_cast<std::int32_t>(value));
}

/// The nearest integer, halves away from zero: the float32 before 1/2, added, lifts a half to the next integer by rounding and
/// nothing below it. |value| below 2^22, and not below 0 unless `kIsSigned`.
template <bool kIsSigned>
[[gnu::always_inline]] inline float nearest_whole(float value) {
  constexpr float kBelowHalf = 0.49999997F;
  return truncated(value + (kIsSigned ? __builtin_copysignf(kBelowHalf, value) : kBelowHalf));
}

}  // namespace kvtide::kv

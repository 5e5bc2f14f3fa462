#pragma once
// Smallest and largest values of many groups, and rounding to whole codes: shared by the kernels that store values in groups.
// For files that are compiled as group_codes.cc is (see sim/CMakeLists.txt), and always inlined: by themselves these would be
// compiled for the narrowest registers.

#include <cstdint>

#include "kv/compression/lanes.h"

namespace kvtide::kv {

inline constexpr std::int64_t kGroupsAtOnce = 64;  ///< groups whose scales are found together

/// Combines all numbers of each of sixteen groups of whole registers: a register holds what its lanes have seen, and sixteen
/// of them are folded at once. @param load_some  makes lanes of sixteen values
template <typename Load, typename Combine>
[[gnu::always_inline]] inline void combine_groups(const float* values, std::int64_t group, float* combined,
                                                  const Load& load_some, const Combine& combine) {
  Lanes each[kNumLanes];
  for (std::int64_t index = 0; index < kNumLanes; ++index) {
    const float* of_group = values + index * group;
    load_some(of_group, each[index]);
    for (std::int64_t i = kNumLanes; i < group; i += kNumLanes) {
      Lanes more;
      load_some(of_group + i, more);
      combine(each[index], more);
    }
  }
  combine_each(each, combine);
  store(each[0], combined);
}

[[gnu::always_inline]] inline void load_values(const float* values, Lanes& lanes) {
  load(values, lanes);
}

[[gnu::always_inline]] inline void drop_signs(Lanes& lanes) {
  using Bits = std::uint32_t __attribute__((vector_size(sizeof(Lanes))));
  lanes = reinterpret_cast<Lanes>(reinterpret_cast<Bits>(lanes) & 0x7FFFFFFFU);
}

[[gnu::always_inline]] inline void load_magnitudes(const float* values, Lanes& lanes) {
  load(values, lanes);
  drop_signs(lanes);
}

[[gnu::always_inline]] inline void take_lesser(Lanes& least, const Lanes& more) {
  least = more < least ? more : least;
}

[[gnu::always_inline]] inline void take_greater(Lanes& largest, const Lanes& more) {
  largest = more > largest ? more : largest;
}

/// @param values  [count, group], one after another; `group` a constant where the caller knows it
/// @param count   0..kGroupsAtOnce
[[gnu::always_inline]] inline void find_extremes(const float* values, std::int64_t group, std::int64_t count,
                                                 float* low, float* high) {
  std::int64_t index = 0;
  for (; group % kNumLanes == 0 && index + kNumLanes <= count; index += kNumLanes) {
    combine_groups(values + index * group, group, low + index, load_values, take_lesser);
    combine_groups(values + index * group, group, high + index, load_values, take_greater);
  }
  for (; index < count; ++index) {
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

/// Largest magnitudes. @param count  0..kGroupsAtOnce
[[gnu::always_inline]] inline void find_magnitudes(const float* values, std::int64_t group, std::int64_t count,
                                                   float* magnitudes) {
  std::int64_t index = 0;
  for (; group % kNumLanes == 0 && index + kNumLanes <= count; index += kNumLanes) {
    combine_groups(values + index * group, group, magnitudes + index, load_magnitudes, take_greater);
  }
  for (; index < count; ++index) {
    const float* of_group = values + index * group;
    float largest = 0;
    for (std::int64_t i = 0; i < group; ++i) {
      const float magnitude = __builtin_fabsf(of_group[i]);
      largest = magnitude > largest ? magnitude : largest;
    }
    magnitudes[index] = largest;
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

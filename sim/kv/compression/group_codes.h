#pragma once
// The arithmetic of integer_codec.h in vector registers: extremes of a group, scale and zero point, codes, and back.
//
// A value's code is (x - zero) * (1 / scale), to the nearest level, halves away from zero, within the levels; it reads back as
// code * scale + zero. Every step rounds once in float32 on every processor, so the numbers are the same everywhere.
//
// Example: 0, 1, 2, 15 as levels 0..15: zero 0, scale 1, nothing lost; as levels 0..3: scale 5: 0, 0, 0, 15.

#include <cstdint>

namespace kvtide::kv {

struct GroupLevels {
  float smallest = 0;  ///< code, an integer
  float largest = 15;  ///< code, an integer, above 0
  /// Zero point 0, scale from the largest magnitude; else from the smallest to the largest value.
  bool is_symmetric = false;
  bool has_half_metadata = true;  ///< scale and zero point are stored in fp16; else as they are
};

/// Encodes and decodes in place `num_groups` groups of `group` values, all one after another.
void code_groups(float* values, std::int64_t group, std::int64_t num_groups, const GroupLevels& levels);

/// The same where every column of [num_rows, num_columns] is a group; `stride` values from row to row.
void code_columns(float* values, std::int64_t stride, std::int64_t num_rows, std::int64_t num_columns,
                  const GroupLevels& levels);

/// Groups whose scale and zero point are stored in E4M3, their range first multiplied by `clip`: zero = clip min,
/// scale = (clip max - zero) / top, code = (x - zero) / scale, to the nearest of 0..top, halves upwards.
void code_clipped_groups(float* values, std::int64_t group, std::int64_t num_groups, float clip, float top);

}  // namespace kvtide::kv

// Compiled with finite numbers assumed (smallest and largest of a register at once) and without fused multiply-adds (equal
// numbers at every vector width), for which nothing but language headers may be included.

#include "kv/compression/group_codes.h"

#include <algorithm>

#include "base/vector_width.h"
#include "kv/compression/group_extremes.h"
#include "kv/compression/half_rounding.h"
#include "kv/compression/small_float.h"

namespace kvtide::kv {
namespace {

/// What a value reads back as.
template <bool kIsSymmetric>
inline float decoded(float value, float zero, float scale, float inverse, const GroupLevels& levels) {
  float code = (value - zero) * inverse;
  code = code > levels.smallest ? code : levels.smallest;
  code = code < levels.largest ? code : levels.largest;
  return nearest_whole<kIsSymmetric>(code) * scale + zero;
}

template <bool kIsSymmetric, bool kHasHalfMetadata>
[[gnu::always_inline]] inline void find_scales_of(float* low, float* high, float* inverse, float top) {
  const auto stored = [](float value) { return kHasHalfMetadata ? nearest_half(value) : value; };
  for (std::int64_t group = 0; group < kGroupsAtOnce; ++group) {
    const float magnitude = -low[group] > high[group] ? -low[group] : high[group];
    const float zero = kIsSymmetric ? 0.0F : stored(low[group]);
    const float scale = stored((kIsSymmetric ? magnitude : high[group] - zero) / top);
    low[group] = zero;
    high[group] = scale;
    inverse[group] = scale == 0 ? 0.0F : 1.0F / scale;  // 0: code 0, which reads back as the zero point
  }
}

/// Turns the extremes of kGroupsAtOnce groups into their zero points (in `low`) and scales (in `high`).
[[gnu::always_inline]] inline void find_scales(float* low, float* high, float* inverse, const GroupLevels& levels) {
  // Decided outside of the loops, which are vectors only without branches.
  if (levels.is_symmetric) {
    return levels.has_half_metadata ? find_scales_of<true, true>(low, high, inverse, levels.largest)
                                    : find_scales_of<true, false>(low, high, inverse, levels.largest);
  }
  return levels.has_half_metadata ? find_scales_of<false, true>(low, high, inverse, levels.largest)
                                  : find_scales_of<false, false>(low, high, inverse, levels.largest);
}

/// Groups of `group` values, a constant where the caller knows it.
template <bool kIsSymmetric>
[[gnu::always_inline]] inline void code_groups_of(float* values, std::int64_t group, std::int64_t num_groups,
                                                  const GroupLevels& levels) {
  const GroupLevels known = levels;
  float low[kGroupsAtOnce] = {};
  float high[kGroupsAtOnce] = {};
  float inverse[kGroupsAtOnce];
  for (std::int64_t first = 0; first < num_groups; first += kGroupsAtOnce) {
    const std::int64_t count = std::min(kGroupsAtOnce, num_groups - first);
    find_extremes(values + first * group, group, count, low, high);
    find_scales(low, high, inverse, known);
    for (std::int64_t index = 0; index < count; ++index) {
      float* of_group = values + (first + index) * group;
      const float zero = low[index];
      const float scale = high[index];
      const float factor = inverse[index];
      for (std::int64_t i = 0; i < group; ++i) {
        of_group[i] = decoded<kIsSymmetric>(of_group[i], zero, scale, factor, known);
      }
    }
  }
}

template <bool kIsSymmetric>
[[gnu::always_inline]] inline void code_groups_by_length(float* values, std::int64_t group, std::int64_t num_groups,
                                                         const GroupLevels& levels) {
  switch (group) {
    case 32:
      return code_groups_of<kIsSymmetric>(values, 32, num_groups, levels);
    case 64:
      return code_groups_of<kIsSymmetric>(values, 64, num_groups, levels);
    case 128:
      return code_groups_of<kIsSymmetric>(values, 128, num_groups, levels);
    default:
      return code_groups_of<kIsSymmetric>(values, group, num_groups, levels);
  }
}

/// At most kGroupsAtOnce columns.
template <bool kIsSymmetric>
[[gnu::always_inline]] inline void code_columns_of(float* values, std::int64_t stride, std::int64_t num_rows,
                                                   std::int64_t num_columns, const GroupLevels& levels) {
  const GroupLevels known = levels;
  float low[kGroupsAtOnce] = {};
  float high[kGroupsAtOnce] = {};
  float inverse[kGroupsAtOnce];
  std::copy(values, values + num_columns, low);
  std::copy(values, values + num_columns, high);
  for (std::int64_t row = 1; row < num_rows; ++row) {
    const float* of_row = values + row * stride;
    for (std::int64_t column = 0; column < num_columns; ++column) {
      low[column] = of_row[column] < low[column] ? of_row[column] : low[column];
      high[column] = of_row[column] > high[column] ? of_row[column] : high[column];
    }
  }
  find_scales(low, high, inverse, known);
  for (std::int64_t row = 0; row < num_rows; ++row) {
    float* of_row = values + row * stride;
    for (std::int64_t column = 0; column < num_columns; ++column) {
      of_row[column] = decoded<kIsSymmetric>(of_row[column], low[column], high[column], inverse[column], known);
    }
  }
}

template <bool kIsSymmetric>
[[gnu::always_inline]] inline void code_all_columns(float* values, std::int64_t stride, std::int64_t num_rows,
                                                    std::int64_t num_columns, const GroupLevels& levels) {
  std::int64_t first = 0;
  for (; first + kGroupsAtOnce <= num_columns; first += kGroupsAtOnce) {
    code_columns_of<kIsSymmetric>(values + first, stride, num_rows, kGroupsAtOnce, levels);
  }
  if (first < num_columns) code_columns_of<kIsSymmetric>(values + first, stride, num_rows, num_columns - first, levels);
}

}  // namespace

KVTIDE_EVERY_VECTOR_WIDTH
void code_groups(float* values, std::int64_t group, std::int64_t num_groups, const GroupLevels& levels) {
  if (levels.is_symmetric) return code_groups_by_length<true>(values, group, num_groups, levels);
  code_groups_by_length<false>(values, group, num_groups, levels);
}

KVTIDE_EVERY_VECTOR_WIDTH
void code_columns(float* values, std::int64_t stride, std::int64_t num_rows, std::int64_t num_columns,
                  const GroupLevels& levels) {
  if (levels.is_symmetric) return code_all_columns<true>(values, stride, num_rows, num_columns, levels);
  code_all_columns<false>(values, stride, num_rows, num_columns, levels);
}

KVTIDE_EVERY_VECTOR_WIDTH
void code_clipped_groups(float* values, std::int64_t group, std::int64_t num_groups, float clip, float top) {
  float low[kGroupsAtOnce] = {};
  float high[kGroupsAtOnce] = {};
  for (std::int64_t first = 0; first < num_groups; first += kGroupsAtOnce) {
    const std::int64_t count = std::min(kGroupsAtOnce, num_groups - first);
    find_extremes(values + first * group, group, count, low, high);
    for (std::int64_t index = 0; index < count; ++index) {
      const float zero = kE4M3.round_number(low[index] * clip);
      const float scale = kE4M3.round_number((high[index] * clip - zero) / top);
      const float divisor = scale > 0 ? scale : 1.0F;
      const float factor = scale > 0 ? scale : 0.0F;  // 0: everything reads back as the zero point
      float* of_group = values + (first + index) * group;
      for (std::int64_t i = 0; i < group; ++i) {
        float code = (of_group[i] - zero) / divisor;
        code = code > 0 ? code : 0;
        code = code < top ? code : top;
        of_group[i] = nearest_whole<false>(code) * factor + zero;
      }
    }
  }
}

KVTIDE_EVERY_VECTOR_WIDTH
void round_to_half(float* values, std::int64_t count) {
  for (std::int64_t index = 0; index < count; ++index) values[index] = nearest_half(values[index]);
}

KVTIDE_EVERY_VECTOR_WIDTH
void round_to_bfloat16(float* values, std::int64_t count) {
  for (std::int64_t index = 0; index < count; ++index) values[index] = nearest_bfloat16(values[index]);
}

}  // namespace kvtide::kv

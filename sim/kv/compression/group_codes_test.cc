#include "kv/compression/group_codes.h"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cmath>

#include "base/random.h"

namespace kvtide::kv {
namespace {

std::vector<float> drawn(std::size_t count, const char* name) {
  RandomStream random(1, name);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

float half(float value) {
  return static_cast<float>(static_cast<Eigen::half>(value));
}

/// The definition of the header, one value at a time and nothing clever. Volatile: each step is rounded by itself.
std::vector<float> plainly(std::vector<float> group, const GroupLevels& levels) {
  float low = group[0];
  float high = group[0];
  for (const float value : group) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  float zero = levels.is_symmetric ? 0.0F : low;
  if (levels.has_half_metadata) zero = half(zero);
  volatile float scale = (levels.is_symmetric ? std::max(-low, high) : high - zero) / levels.largest;
  if (levels.has_half_metadata) scale = half(scale);
  for (float& value : group) {
    if (scale == 0) {
      value = zero;
      continue;
    }
    const volatile float inverse = 1.0F / scale;
    const volatile float difference = value - zero;
    const volatile float code = difference * inverse;
    const volatile float back =
        std::round(std::min(std::max(static_cast<float>(code), levels.smallest), levels.largest)) * scale;
    value = back + zero;
  }
  return group;
}

const std::vector<GroupLevels> kLevels{{0, 15, false, true}, {0, 3, false, true},     {0, 255, false, true},
                                       {-7, 7, true, true},  {-127, 127, true, true}, {-127, 127, true, false},
                                       {0, 15, false, false}};

TEST(GroupCodes, GroupsOfAnyLengthAreWhatTheDefinitionSays) {
  for (const GroupLevels& levels : kLevels) {
    for (const std::size_t group : {1, 2, 7, 16, 31, 32, 33, 64, 200}) {
      // 67 groups: more than are handled together, and not a multiple.
      std::vector<float> values = drawn(67 * group, "groups");
      std::vector<float> expected;
      for (std::size_t first = 0; first < values.size(); first += group) {
        for (const float value : plainly({values.begin() + static_cast<std::ptrdiff_t>(first),
                                          values.begin() + static_cast<std::ptrdiff_t>(first + group)},
                                         levels)) {
          expected.push_back(value);
        }
      }
      code_groups(values.data(), static_cast<std::int64_t>(group), 67, levels);
      ASSERT_EQ(values, expected) << "group " << group << ", levels " << levels.smallest << ".." << levels.largest;
    }
  }
}

// A column is a group: the same numbers as the transposed matrix row by row, whatever the stride.
TEST(GroupCodes, ColumnsAreGroupsToo) {
  for (const GroupLevels& levels : kLevels) {
    for (const std::size_t columns : {1, 16, 63, 64, 65, 130}) {
      constexpr std::size_t kRows = 9;
      const std::size_t stride = columns + 3;
      std::vector<float> values = drawn(kRows * stride, "columns");
      std::vector<float> expected = values;
      for (std::size_t column = 0; column < columns; ++column) {
        std::vector<float> group;
        for (std::size_t row = 0; row < kRows; ++row) group.push_back(values[row * stride + column]);
        group = plainly(group, levels);
        for (std::size_t row = 0; row < kRows; ++row) expected[row * stride + column] = group[row];
      }
      code_columns(values.data(), static_cast<std::int64_t>(stride), kRows, static_cast<std::int64_t>(columns), levels);
      ASSERT_EQ(values, expected) << columns << " columns, levels " << levels.smallest << ".." << levels.largest;
    }
  }
}

TEST(GroupCodes, EqualValuesReadBackAsTheirZeroPoint) {
  std::vector<float> values(40, 0.5F);
  code_groups(values.data(), 20, 2, {0, 15, false, true});
  code_columns(values.data(), 8, 5, 8, {0, 3, false, true});
  EXPECT_EQ(values, std::vector<float>(40, 0.5F));
  std::vector<float> zeros(40, 0.0F);
  code_groups(zeros.data(), 20, 2, {-7, 7, true, true});
  EXPECT_EQ(zeros, std::vector<float>(40, 0.0F));
}

// Levels 0..3 of 0..3: scale 1. 0.5 and 1.5 are halfway: away from zero.
TEST(GroupCodes, HalvesGoAwayFromZero) {
  std::vector<float> values{0, 0.5F, 1.5F, 3};
  code_groups(values.data(), 4, 1, {0, 3, false, true});
  EXPECT_EQ(values, (std::vector<float>{0, 1, 2, 3}));
  std::vector<float> signed_values{-3, -0.5F, 0.5F, 1.5F};
  code_groups(signed_values.data(), 4, 1, {-3, 3, true, true});
  EXPECT_EQ(signed_values, (std::vector<float>{-3, -1, 1, 2}));
}

}  // namespace
}  // namespace kvtide::kv

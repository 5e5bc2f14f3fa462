#include "kv/compression/scaled_floats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "kv/compression/small_float.h"

namespace kvtide::kv {
namespace {

constexpr std::int64_t kNumGroups = 67;  // more than are handled together, and not a multiple

/// Of every size, from nothing to beyond what float32's normal numbers hold, and groups with quotients on a boundary.
std::vector<float> drawn(std::int64_t group) {
  RandomStream random(1, "scaled_floats");
  std::vector<float> values;
  for (std::int64_t index = 0; index < kNumGroups; ++index) {
    const float factor = index % 7 == 0 ? 0.0F : std::ldexp(1.0F, static_cast<int>(index % 7 * 40 - 160));
    for (std::int64_t i = 0; i < group; ++i) {
      // Integers up to 96 lie halfway between numbers of a format under the scales 96 / 6 and 96 / 448.
      const auto whole = i == 0 ? 96.0F : static_cast<float>(random.below(193)) - 96.0F;
      values.push_back(index % 5 == 3 ? whole : static_cast<float>(random.normal()) * factor);
    }
  }
  return values;
}

/// @param scale_of  (largest magnitude of the group, of all)
template <typename Kernel, typename ScaleOf>
void expect_scaled(const Kernel& kernel, std::int64_t group, const SmallFloat& format, const ScaleOf& scale_of) {
  const std::vector<float> values = drawn(group);
  std::vector<float> coded = values;
  kernel(coded.data(), kNumGroups);
  const auto magnitude_of = [&](std::size_t first, std::size_t count) {
    float largest = 0;
    for (std::size_t i = first; i < first + count; ++i) largest = std::max(largest, std::abs(values[i]));
    return largest;
  };
  const auto width = static_cast<std::size_t>(group);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float scale = scale_of(magnitude_of(i / width * width, width), magnitude_of(0, values.size()));
    const float expected = scale > 0 ? format.decode(format.encode(values[i] / scale)) * scale : 0.0F;
    ASSERT_EQ(coded[i], expected) << "value " << values[i] << ", scale " << scale;
  }
}

TEST(ScaledFloats, E4M3GroupsReachFromTheirLargestValue) {
  for (const std::int64_t group : {1, 16, 33, 64, 128, 272}) {
    expect_scaled([group](float* values, std::int64_t num_groups) { code_e4m3_groups(values, group, num_groups); },
                  group, kE4M3, [](float magnitude, float) { return magnitude / 448; });
  }
}

TEST(ScaledFloats, NvBlocksHaveAScaleInE4M3UnderOneOfTheTensor) {
  expect_scaled(&code_nvfp4, kNvBlock, kE2M1, [](float magnitude, float largest) {
    const float tensor = largest / (6 * 448);
    return kE4M3.decode(kE4M3.encode(magnitude / 6 / tensor)) * tensor;
  });
}

// OCP MX 1.0, section 6.3: the scale is the largest power of two of the block's largest value, divided by that of the format's
// (4 and 256), within 2^-127..2^127.
TEST(ScaledFloats, MxBlocksHaveAPowerOfTwo) {
  const auto power = [](float magnitude, int largest_exponent) {
    if (magnitude == 0) return 0.0F;
    return std::ldexp(1.0F, std::clamp(std::ilogb(magnitude) - largest_exponent, -127, 127));
  };
  expect_scaled(&code_mxfp4, kMxBlock, kE2M1, [&](float magnitude, float) { return power(magnitude, 2); });
  expect_scaled(&code_mxfp8, kMxBlock, kE4M3, [&](float magnitude, float) { return power(magnitude, 8); });
}

}  // namespace
}  // namespace kvtide::kv

#include "kv/compression/ggml_blocks.h"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace kvtide::kv {
namespace {

using Block = std::vector<float>;

float half(float value) {
  return static_cast<float>(static_cast<Eigen::half>(value));
}

/// 67 blocks: more than are handled together, and not a multiple. Some hold only multiples of 1/2 (ties, and magnitudes that
/// occur with both signs), some nothing, some lie far from zero.
std::vector<float> drawn() {
  RandomStream random(1, "ggml_blocks");
  std::vector<float> values;
  for (std::int64_t block = 0; block < 67; ++block) {
    for (std::int64_t i = 0; i < kGgmlBlock; ++i) {
      const auto value = static_cast<float>(random.normal());
      values.push_back(block % 5 == 1   ? std::round(2 * value) / 2
                       : block % 5 == 2 ? 0.0F
                       : block % 5 == 3 ? 100 + value / 1000
                                        : value);
    }
  }
  return values;
}

/// Holds a kernel against the definition in ggml_codec.cc, one block at a time and nothing clever.
void expect_definition(void (*kernel)(float*, std::int64_t), Block (*plainly)(Block)) {
  const std::vector<float> values = drawn();
  std::vector<float> coded = values;
  kernel(coded.data(), 67);
  for (std::size_t first = 0; first < values.size(); first += kGgmlBlock) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
    const Block expected = plainly({begin, begin + kGgmlBlock});
    for (std::size_t i = 0; i < kGgmlBlock; ++i) {
      ASSERT_EQ(coded[first + i], expected[i]) << "block " << first / kGgmlBlock << ", value " << values[first + i];
    }
  }
}

float largest_magnitude(const Block& x) {
  float largest = 0;
  for (const float value : x) largest = std::max(largest, std::abs(value));
  return largest;
}

/// The first value of largest magnitude.
float extreme(const Block& x) {
  return *std::ranges::find_if(x, [&](float value) { return std::abs(value) == largest_magnitude(x); });
}

TEST(GgmlBlocks, Q8_0IsWhatTheDefinitionSays) {
  expect_definition(&code_q8_0, [](Block x) {
    const volatile float scale = largest_magnitude(x) / 127;
    const volatile float inverse = scale != 0 ? 1 / scale : 0;
    for (float& value : x) {
      const volatile float code = value * inverse;
      value = std::round(code) * half(scale);
    }
    return x;
  });
}

template <int kBits>
Block signed_plainly(Block x) {
  constexpr float kHalf = 1 << (kBits - 1);
  const volatile float scale = extreme(x) / -kHalf;
  const volatile float inverse = scale != 0 ? 1 / scale : 0;
  for (float& value : x) {
    const volatile float scaled = value * inverse;
    const volatile float shifted = scaled + kHalf;
    const volatile float lifted = shifted + 0.5F;
    value = (std::min(2 * kHalf - 1, std::trunc(lifted)) - kHalf) * half(scale);
  }
  return x;
}

TEST(GgmlBlocks, SignedBlocksAreWhatTheDefinitionSays) {
  expect_definition([](float* values, std::int64_t num_blocks) { code_signed_blocks(values, num_blocks, 4); },
                    &signed_plainly<4>);
  expect_definition([](float* values, std::int64_t num_blocks) { code_signed_blocks(values, num_blocks, 5); },
                    &signed_plainly<5>);
}

template <int kBits>
Block with_minimum_plainly(Block x) {
  constexpr float kTop = (1 << kBits) - 1;
  const float minimum = *std::ranges::min_element(x);
  const volatile float scale = (*std::ranges::max_element(x) - minimum) / kTop;
  const volatile float inverse = scale != 0 ? 1 / scale : 0;
  for (float& value : x) {
    const volatile float scaled = (value - minimum) * inverse;
    const volatile float lifted = scaled + 0.5F;
    const volatile float back = std::min(kTop, std::trunc(lifted)) * half(scale);
    value = back + half(minimum);
  }
  return x;
}

TEST(GgmlBlocks, BlocksWithMinimumAreWhatTheDefinitionSays) {
  expect_definition([](float* values, std::int64_t num_blocks) { code_blocks_with_minimum(values, num_blocks, 4); },
                    &with_minimum_plainly<4>);
  expect_definition([](float* values, std::int64_t num_blocks) { code_blocks_with_minimum(values, num_blocks, 5); },
                    &with_minimum_plainly<5>);
}

/// ggml-common.h, kvalues_iq4nl; of two equally near the higher.
float nearest_uneven(float x) {
  const std::vector<float> levels{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  float nearest = levels.front();
  for (const float level : levels) nearest = std::abs(x - level) <= std::abs(x - nearest) ? level : nearest;
  return nearest;
}

TEST(GgmlBlocks, Iq4NlIsWhatTheDefinitionSays) {
  expect_definition(&code_iq4_nl, [](Block x) {
    const volatile float scale = extreme(x) / -127;
    const volatile float inverse = scale != 0 ? 1 / scale : 0;
    volatile float weighted_qx = 0;
    volatile float weighted_qq = 0;
    Block levels;
    for (const float value : x) {
      const volatile float scaled = inverse * value;
      levels.push_back(nearest_uneven(scaled));
      const volatile float weight = value * value;
      const volatile float weighted = weight * levels.back();
      const volatile float with_value = weighted * value;
      const volatile float with_level = weighted * levels.back();
      weighted_qx = weighted_qx + with_value;
      weighted_qq = weighted_qq + with_level;
    }
    const volatile float fitted = weighted_qq > 0 ? weighted_qx / weighted_qq : 0;
    for (float& level : levels) level *= half(fitted);
    return levels;
  });
}

}  // namespace
}  // namespace kvtide::kv

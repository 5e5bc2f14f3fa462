// Compiled as group_codes.cc is: nothing but language headers may be included.

#include "kv/compression/ggml_blocks.h"

#include <algorithm>

#include "base/vector_width.h"
#include "kv/compression/group_extremes.h"
#include "kv/compression/half_rounding.h"

namespace kvtide::kv {
namespace {

constexpr std::int64_t kBlock = kGgmlBlock;

/// What the values of kGroupsAtOnce blocks share.
struct BlockScales {
  float low[kGroupsAtOnce] = {};
  float high[kGroupsAtOnce] = {};
  float inverse[kGroupsAtOnce];  ///< of the unrounded scale; 0 where that is 0
  float stored[kGroupsAtOnce];   ///< scale in fp16
};

/// Finds scale_of(low, high) of each block, then replaces each value by value_of(value, block's index).
template <typename ScaleOf, typename Adjust, typename ValueOf>
[[gnu::always_inline]] inline void code_blocks(float* values, std::int64_t num_blocks, BlockScales& scales,
                                               const Adjust& adjust, const ScaleOf& scale_of, const ValueOf& value_of) {
  for (std::int64_t first = 0; first < num_blocks; first += kGroupsAtOnce) {
    const std::int64_t count = std::min(kGroupsAtOnce, num_blocks - first);
    float* part = values + first * kBlock;
    find_extremes(part, kBlock, count, scales.low, scales.high);
    adjust(part, count);
    for (std::int64_t block = 0; block < kGroupsAtOnce; ++block) {
      const float scale = scale_of(block);
      scales.inverse[block] = scale != 0 ? 1.0F / scale : 0.0F;
      scales.stored[block] = nearest_half(scale);
    }
    for (std::int64_t block = 0; block < count; ++block) {
      float* of_block = part + block * kBlock;
      for (std::int64_t i = 0; i < kBlock; ++i) of_block[i] = value_of(of_block[i], block);
    }
  }
}

constexpr auto kAsTheyAre = [](float*, std::int64_t) {};

/// The value of largest magnitude of each block, the first of equal ones, with its sign, in `high`.
[[gnu::always_inline]] inline void find_farthest(const float* values, std::int64_t count, const float* low,
                                                 float* high) {
  for (std::int64_t block = 0; block < count; ++block) {
    if (-low[block] > high[block]) {
      high[block] = low[block];
    } else if (-low[block] == high[block]) {
      const float* of_block = values + block * kBlock;
      std::int64_t i = 0;
      while (i + 1 < kBlock && of_block[i] != low[block] && of_block[i] != high[block]) ++i;
      high[block] = of_block[i];
    }
  }
}

template <std::int32_t kBits>
[[gnu::always_inline]] inline void code_signed(float* values, std::int64_t num_blocks) {
  constexpr float kHalf = 1 << (kBits - 1);
  constexpr float kTop = 2 * kHalf - 1;
  BlockScales scales;
  code_blocks(
      values, num_blocks, scales,
      [&](const float* part, std::int64_t count) { find_farthest(part, count, scales.low, scales.high); },
      [&](std::int64_t block) { return scales.high[block] / -kHalf; },
      [&](float value, std::int64_t block) {
        const float level = truncated(value * scales.inverse[block] + kHalf + 0.5F);
        return ((level < kTop ? level : kTop) - kHalf) * scales.stored[block];
      });
}

template <std::int32_t kBits>
[[gnu::always_inline]] inline void code_with_minimum(float* values, std::int64_t num_blocks) {
  constexpr float kTop = (1 << kBits) - 1;
  BlockScales scales;
  code_blocks(
      values, num_blocks, scales, kAsTheyAre,
      [&](std::int64_t block) { return (scales.high[block] - scales.low[block]) / kTop; },
      [&](float value, std::int64_t block) {
        const float level = truncated((value - scales.low[block]) * scales.inverse[block] + 0.5F);
        return (level < kTop ? level : kTop) * scales.stored[block] + nearest_half(scales.low[block]);
      });
}

/// ggml-common.h, kvalues_iq4nl: the lowest level, and where each next one begins and how much higher it is. A value halfway
/// takes the higher.
constexpr float kLowestLevel = -127;
constexpr float kBoundaries[] = {-115.5F, -93.5F, -74, -57, -42, -28.5F, -16, -4.5F, 7, 19, 31.5F, 45.5F, 61, 79, 101};
constexpr float kSteps[] = {23, 21, 18, 16, 14, 13, 12, 11, 12, 12, 13, 15, 16, 20, 24};

/// Sixteen blocks side by side, so that each adds up its values in their order: lane b of x[h][i] is value 16 h + i of block b.
using SixteenBlocks = Lanes[kBlock / kNumLanes][kNumLanes];

[[gnu::always_inline]] inline void code_uneven(SixteenBlocks& x) {
  Lanes farthest = {};
  Lanes largest = {};
  for (std::int64_t i = 0; i < kBlock; ++i) {
    const Lanes& value = x[i / kNumLanes][i % kNumLanes];
    Lanes magnitude = value;
    drop_signs(magnitude);
    farthest = magnitude > largest ? value : farthest;
    take_greater(largest, magnitude);
  }
  const Lanes scale = farthest / kLowestLevel;
  const Lanes inverse = scale == 0 ? Lanes{} : 1.0F / scale;
  Lanes weighted_qx = {};
  Lanes weighted_qq = {};
  for (std::int64_t i = 0; i < kBlock; ++i) {
    Lanes& value = x[i / kNumLanes][i % kNumLanes];
    const Lanes scaled = inverse * value;
    Lanes level = Lanes{} + kLowestLevel;
#pragma GCC unroll 15
    for (std::int64_t next = 0; next < 15; ++next) {
      level += scaled >= kBoundaries[next] ? Lanes{} + kSteps[next] : Lanes{};
    }
    const Lanes weight = value * value;
    weighted_qx += weight * level * value;
    weighted_qq += weight * level * level;
    value = level;
  }
  float stored[kNumLanes];
  store(weighted_qq > 0 ? weighted_qx / weighted_qq : Lanes{}, stored);
  for (float& of_block : stored) of_block = nearest_half(of_block);
  Lanes factor;
  load(stored, factor);
  for (auto& half : x) {
    for (Lanes& value : half) value *= factor;
  }
}

}  // namespace

KVTIDE_EVERY_VECTOR_WIDTH
void code_q8_0(float* values, std::int64_t num_blocks) {
  BlockScales scales;
  code_blocks(
      values, num_blocks, scales, kAsTheyAre,
      [&](std::int64_t block) {
        return (-scales.low[block] > scales.high[block] ? -scales.low[block] : scales.high[block]) / 127.0F;
      },
      [&](float value, std::int64_t block) {
        return nearest_whole<true>(value * scales.inverse[block]) * scales.stored[block];
      });
}

KVTIDE_EVERY_VECTOR_WIDTH
void code_signed_blocks(float* values, std::int64_t num_blocks, std::int32_t bits) {
  if (bits == 4) return code_signed<4>(values, num_blocks);
  code_signed<5>(values, num_blocks);
}

KVTIDE_EVERY_VECTOR_WIDTH
void code_blocks_with_minimum(float* values, std::int64_t num_blocks, std::int32_t bits) {
  if (bits == 4) return code_with_minimum<4>(values, num_blocks);
  code_with_minimum<5>(values, num_blocks);
}

KVTIDE_EVERY_VECTOR_WIDTH
void code_iq4_nl(float* values, std::int64_t num_blocks) {
  for (std::int64_t first = 0; first < num_blocks; first += kNumLanes) {
    const std::int64_t count = std::min(kNumLanes, num_blocks - first);
    float* const blocks = values + first * kBlock;
    SixteenBlocks x;
    for (std::int64_t half = 0; half < kBlock / kNumLanes; ++half) {
      for (std::int64_t lane = 0; lane < kNumLanes; ++lane) {
        // Beyond the last block it again.
        load(blocks + std::min(lane, count - 1) * kBlock + half * kNumLanes, x[half][lane]);
      }
      transpose(x[half]);
    }
    code_uneven(x);
    for (std::int64_t half = 0; half < kBlock / kNumLanes; ++half) {
      transpose(x[half]);
      for (std::int64_t lane = 0; lane < count; ++lane) {
        store(x[half][lane], blocks + lane * kBlock + half * kNumLanes);
      }
    }
  }
}

}  // namespace kvtide::kv

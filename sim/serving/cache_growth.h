#pragma once
// How many tokens' entries a sequence still holds once a policy compresses it: while its prompt is computed all of them; then the
// prompt is compressed at once, and later every `interval` tokens.
//
// Example: sinks and window 68, blocks of 128, keep 0.5, context 1,092: 1,024 tokens in 8 blocks keep 512, so 580 are held. They grow
// by one a step to 708 and fall to 644 when the ninth block is compressed.
//
// Layers with a sliding window keep its tokens only, in blocks of their own: a block has as many bytes as `block_size` entries of the
// other layers. Example, 10 layers that keep all and 50 with a window of 1,024, all alike: a token of the 50 weighs 5 of the 10's, so
// 65,536 tokens are 65,536 + 5,120 entries.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/units.h"

namespace kvtide::serving {

struct CacheGrowth {
  double keep_ratio = 1;         ///< of the tokens in compressed blocks, (0, 1]
  std::int64_t always_kept = 0;  ///< sinks and recent window, tokens
  std::int64_t interval =
      1;  ///< tokens compressed at once while decoding: the policy's block, or a flush of a residual
  bool has_whole_layers = true;  ///< that keep the whole context; false: blocks are those of the windows
  std::int64_t window = 0;       ///< tokens that layers with a window keep; 0: no layer has one
  double window_weight = 0;      ///< bytes of a token in those layers over an entry's in the others; 1 without others

  /// Memory changes with it.
  [[nodiscard]] bool frees_blocks() const { return keep_ratio < 1; }
  /// Work comes in bursts.
  [[nodiscard]] bool has_bursts() const { return interval > 1; }

  /// Tokens in blocks that are compressed at this context.
  [[nodiscard]] std::int64_t compressed(std::int64_t context) const {
    return std::max<std::int64_t>(0, context - always_kept) / interval * interval;
  }
  [[nodiscard]] std::int64_t held(std::int64_t context) const {
    if (!frees_blocks()) return context;
    const std::int64_t blocks = compressed(context);
    const auto kept = static_cast<std::int64_t>(std::ceil(static_cast<double>(blocks) * keep_ratio - 1e-9));
    return context - blocks + kept;
  }
  /// Of layers that keep the whole context.
  [[nodiscard]] std::int64_t whole_blocks(std::int64_t entries, std::int64_t block_size) const {
    return has_whole_layers ? ceil_div(entries, block_size) : 0;
  }
  /// Blocks of the windows in a step that computes `tokens` after `before` others: the first of them still sees a window, which may
  /// begin inside a block.
  [[nodiscard]] std::int64_t window_blocks(std::int64_t before, std::int64_t tokens, std::int64_t block_size) const {
    if (window == 0) return 0;
    const std::int64_t all = ceil_div(before + tokens, block_size);
    const std::int64_t seen = ceil_div(window - 1 + tokens, block_size) + 1;
    return static_cast<std::int64_t>(std::ceil(static_cast<double>(std::min(all, seen)) * window_weight - 1e-9));
  }
  /// What the windows hold of a context, as entries of the other layers.
  [[nodiscard]] std::int64_t window_entries(std::int64_t context) const {
    return std::llround(static_cast<double>(std::min(window, context)) * window_weight);
  }
  /// Most entries at once, of layers that keep the whole context, in steps that compute single tokens up to `context`: in the last one
  /// that compresses, or at the end. Example (above): up to 1,220 tokens 708, held(1,219) and the one that completes the block.
  [[nodiscard]] std::int64_t most_decoding(std::int64_t context) const {
    if (!frees_blocks()) return context;
    const std::int64_t blocks = compressed(context);
    return 1 + std::max(held(context - 1), blocks > 0 ? held(always_kept + blocks - 1) : 0);
  }
  /// Beside them the whole prompt, which is compressed once it is complete. Example: a prompt of 600, 708 up to 1,220 tokens.
  [[nodiscard]] std::int64_t most_entries(std::int64_t prompt, std::int64_t context) const {
    return context <= prompt ? context : std::max(prompt, most_decoding(context));
  }
  /// Most blocks that a sequence takes, a prompt and what is generated up to `context` tokens, computed at most `step_tokens` at a time.
  /// Example (field case C1): windows of 4,096 alone, 16,384 tokens in steps of 8,192, blocks of 16: 12,287 / 16 + 1 = 769.
  [[nodiscard]] std::int64_t most_blocks(std::int64_t prompt, std::int64_t context, std::int64_t step_tokens,
                                         std::int64_t block_size) const {
    const std::int64_t last = std::min(context, step_tokens);
    return whole_blocks(most_entries(prompt, context), block_size) + window_blocks(context - last, last, block_size);
  }
  /// Of a prompt alone.
  [[nodiscard]] std::int64_t most_blocks(std::int64_t prompt, std::int64_t step_tokens, std::int64_t block_size) const {
    return most_blocks(prompt, prompt, step_tokens, block_size);
  }
  /// Decode steps until the next burst, >= 1.
  [[nodiscard]] std::int64_t steps_to_burst(std::int64_t context) const {
    const std::int64_t free = context - always_kept;
    return free < 0 ? interval - free : interval - free % interval;
  }
};

}  // namespace kvtide::serving

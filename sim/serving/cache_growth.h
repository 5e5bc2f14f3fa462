#pragma once
// How many tokens' entries a sequence still holds once a policy compresses it: while its prompt is computed all of them; then the
// prompt is compressed at once, and later every `interval` tokens.
//
// Example: sinks and window 68, blocks of 128, keep 0.5, context 1,092: 1,024 tokens in 8 blocks keep 512, so 580 are held. They grow
// by one a step to 708 and fall to 644 when the ninth block is compressed. A budget of 600 stops them there.

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace kvtide::serving {

struct CacheGrowth {
  double keep_ratio = 1;         ///< of the tokens in compressed blocks, (0, 1]
  std::int64_t always_kept = 0;  ///< sinks and recent window, tokens
  std::int64_t interval =
      1;                    ///< tokens compressed at once while decoding: the policy's block, or a flush of a residual
  std::int64_t budget = 0;  ///< most tokens held after compression, whatever the context; 0: no limit

  /// Memory changes with it.
  [[nodiscard]] bool frees_blocks() const { return keep_ratio < 1 || budget > 0; }
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
    const std::int64_t all = context - blocks + kept;
    return budget > 0 ? std::min(all, budget) : all;
  }
  /// Decode steps until the next burst, >= 1.
  [[nodiscard]] std::int64_t steps_to_burst(std::int64_t context) const {
    const std::int64_t free = context - always_kept;
    return free < 0 ? interval - free : interval - free % interval;
  }
};

}  // namespace kvtide::serving

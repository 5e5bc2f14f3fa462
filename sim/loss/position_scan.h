#pragma once
// Would a fact of `span` tokens be found if it began at position j? A fact needs all of its tokens, so its soft success
// is that of its worst token: success(j) = min over the span of 1 - loss.
//
// Example: losses 0, 0, 1, 0, 0 and span 2 -> success 1, 0, 0, 1 at j = 0..3; margin 0.5, -0.5, -0.5, 0.5.

#include <cstdint>
#include <span>
#include <vector>

namespace kvtide::loss {

struct PositionScan {
  std::vector<std::int64_t> position;  ///< first token of the span: 0..N - span
  std::vector<double> success;         ///< [position] in [0, 1]
  std::vector<double> margin;          ///< [position] success - 1/2; below 0 the fact is more lost than kept
  double stability = 0;                ///< position-stability index of `success`; NaN when no span fits
};

/// @param loss  [position] relative loss; clamped to [0, 1]
/// @param span  >= 1; longer than the profile: an empty scan
[[nodiscard]] PositionScan scan_positions(std::span<const double> loss, std::int64_t span);

}  // namespace kvtide::loss

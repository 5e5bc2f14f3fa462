#pragma once
// Rotary position embedding (Su et al., arXiv 2104.09864) in the rotate-half form of Llama-family models:
// channel i is paired with i + d/2 and turned by position * theta^(-2i/d), computed in float64.
//
// Example: d = 2, theta = any, position 1: the one pair turns by 1 radian, (1, 0) -> (cos 1, sin 1) = (0.5403, 0.8415).

#include <cstdint>
#include <span>

namespace kvtide::kv {

struct Rope {
  double theta = 0;  ///< frequency base, e.g. 100000; 0: no rotation at all

  /// Turns one row of head_dim channels in place by `position` (fractional positions are fine: a pool's centre).
  /// @param row  even number of channels
  void rotate(std::span<float> row, double position) const;

  /// Turns `count` rows of `head_dim` channels, laid out one after another, row r by positions[r % positions.size()].
  void rotate_rows(float* rows, std::int64_t count, std::int64_t head_dim,
                   std::span<const std::int64_t> positions) const;

  /// Wavelength in tokens of pair `pair_index` of a head with `head_dim` channels: 2 pi theta^(2i/d).
  [[nodiscard]] double wavelength(std::int64_t pair_index, std::int64_t head_dim) const;
};

}  // namespace kvtide::kv

#pragma once
// Do the jumps of a profile sit on a grid? Score-driven block eviction has no periodic level (which blocks stay is
// irregular), yet each of its jumps is at a block boundary.
//
// Example: jumps at 17, 81, 209 and 337. Differences 64, 128, 128 have the greatest common divisor 64, so the grid is
// 64 with boundaries at 17 mod 64. Four positions all share this grid by chance with probability 64^-3 = 3.8e-6, some grid
// of 64 or more with the sum over g >= 64 of g^-3, over zeta(3): 1.0e-4.

#include <cstdint>
#include <span>
#include <vector>

namespace kvtide::loss {

/// Positions j at which some profile goes from wholly lost (M = 1, an evicted key) to not wholly lost or back, ascending,
/// each once. What a codec or a pool does to keys that are still held makes no jump: an M of 0.9 is not 1, so that the
/// grid of an eviction is read through any quantization stacked on it.
/// @param profiles  [profile][position] relative losses in [0, 1]
[[nodiscard]] std::vector<std::int64_t> jump_positions(const std::vector<std::vector<double>>& profiles);

/// The coarsest grid that holds every jump. For noise-free profiles this is exact: no test, no tolerance.
struct JumpGrid {
  std::int64_t edges = 0;     ///< jumps
  std::int64_t period = 0;    ///< greatest common divisor of the differences; 0 below two jumps
  std::int64_t boundary = 0;  ///< every jump is at boundary mod period
  /// That random positions agree on any grid this coarse or coarser (the period was not known before).
  double chance = 1;
};
[[nodiscard]] JumpGrid jump_grid(std::span<const std::int64_t> jumps);

/// Concentration of squared jumps D_j on a grid of one period.
struct EdgeIndex {
  std::int64_t period = 0;
  double index = 0;      ///< |sum D_j e^(2 pi i j / period)| / sum D_j; 1: all on one grid
  double boundary = 0;   ///< the argument, in positions 0..period
  double effective = 0;  ///< (sum D)^2 / sum D^2: how many jumps carry the sum
  double p = 1;          ///< Rayleigh: exp(-effective * index^2)
  double share = 0;      ///< of sum D_j within one position of the boundary: a grid is sharp, a slow wave is not
};

/// D_j = (l_j - l_(j-1))^2 summed over profiles; D_0 = 0.
[[nodiscard]] std::vector<double> squared_jumps(const std::vector<std::vector<double>>& profiles);
/// @param period  >= 2; index 0 and p 1 when nothing jumps
[[nodiscard]] EdgeIndex edge_index(std::span<const double> squared_jumps, std::int64_t period);
/// The largest period within 5 % of the best index (divisors of a grid score as high as the grid).
/// @return p corrected for the number of periods tried; period 0 when nothing jumps
[[nodiscard]] EdgeIndex search_edge_index(std::span<const double> squared_jumps, std::int64_t max_period);

/// Nearly all values near the lower or upper end (nine in ten within a tenth), and some at each: only such profiles
/// have jumps worth asking about.
[[nodiscard]] bool is_mask_like(const std::vector<std::vector<double>>& profiles);

}  // namespace kvtide::loss

#pragma once
// Has a loss profile a period, which, and how surely? The period is always found from the profile; a known block_size
// is only compared with what was found.
//
// A block grid shows itself in different ways, so there are different rules, asked in this order (outside scans: level first):
//   grid_locked  a noise-free replay whose evicted runs all begin and end on one grid (jump_grid); or, for an outside scan
//                that looks like a mask with noise, edge index >= 0.25 with Rayleigh p <= 0.001 after the search, a fifth
//                of the squared jumps within one position of the grid, 6 cycles or more
//   level        at least 6 cycles seen; periodicity index >= 0.05, ratio >= 5, rotation p <= 0.005 after the search; the
//                period is the one at which positions repeat, and they share 5 % of the variance (repeating_period)
//   likely       2 cycles or more that agree (>= 0.5) and better than chance (p <= 0.005); or a jump grid with few edges
//   none         else
//
// Example: eviction of 96-token blocks on 2,000 positions leaves jumps at 96, 288, 384, 960, ...: their differences are
// multiples of 96 and of nothing larger, so kind grid_locked, period 96, grid_offset 0.

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvtide::loss {

enum class PeriodKind : std::uint8_t { none, level, grid_locked, likely };
[[nodiscard]] std::string_view to_string(PeriodKind kind);

struct PeriodQuestion {
  std::span<const double> loss;  ///< [position] the chosen metric, reduced
  /// [head][position] relative mass loss of a deterministic replay; empty for an outside scan (then only `loss` is
  /// used).
  const std::vector<std::vector<double>>* head_mass_loss = nullptr;
  /// [position] 1: never compressed (sinks, window, what came after the context); empty: none.
  std::span<const std::uint8_t> is_protected;
  std::int64_t known_block_size = 0;  ///< 0: unknown; only confirms
  std::int64_t max_period = 4096;     ///< longest period searched for
  std::uint64_t seed = 1;
};

struct PeriodVerdict {
  PeriodKind kind = PeriodKind::none;
  double period = std::numeric_limits<double>::quiet_NaN();  ///< positions; NaN: none
  /// Block of p is (p + grid_offset) / period; NaN: unknown.
  double grid_offset = std::numeric_limits<double>::quiet_NaN();
  double cycles = 0;         ///< periods seen; 0 without one
  std::int64_t edges = 0;    ///< places where evicted runs of some head begin or end
  double jumps_on_grid = 0;  ///< share of the jumps on the reported grid (outside scan: of their squares); 0 without
  double periodicity_index = 0;  ///< of `loss` at the period (without one: at the best candidate)
  double periodicity_ratio = 0;
  double periodicity_p = 1;  ///< rotation p, corrected for the search when the period came from it
  double edge_index = 0;     ///< at the period (without one: at the best candidate)
  double edge_p = 1;
  double chance = 1;                 ///< probability of the decisive finding by chance
  bool confirms_block_size = false;  ///< the period is a multiple of known_block_size
  std::string certainty;             ///< one line for people
};

[[nodiscard]] PeriodVerdict find_period(const PeriodQuestion& question);

}  // namespace kvtide::loss

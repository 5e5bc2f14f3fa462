#pragma once
// One number out of a profile over positions: mean, tail, worst span, longest lost run, stability.
// A fact is a span of tokens; it is lost where it lies, so the worst place matters more than the mean.

#include <cstdint>
#include <span>
#include <vector>

namespace kvtide::loss {

struct SpanStatistics {
  double mean = 0;                    ///< attention-weighted over all positions
  double worst = 0;                   ///< largest mean over `span` consecutive unprotected positions
  std::int64_t worst_begin = -1;      ///< where that span begins; -1 when every position is protected
  double worst_over_mean = 0;         ///< NaN when the mean is 0
  double cvar05 = 0;                  ///< mean of the worst 5 % of unprotected positions
  std::int64_t longest_lost_run = 0;  ///< consecutive unprotected positions with loss above 1/2
};

/// @param loss          [position]
/// @param attention     [position] weights of the mean, >= 0; all equal when empty or all 0
/// @param is_protected  [position] 1: never compressed, left out of everything but the mean; empty: none
/// @param span          tokens of a fact, >= 1; a run of unprotected positions shorter than that counts as one span
[[nodiscard]] SpanStatistics span_statistics(std::span<const double> loss, std::span<const double> attention,
                                             std::span<const std::uint8_t> is_protected, std::int64_t span);

/// Share of the spans of `span` consecutive unprotected positions that hold both a lost position (loss above 1/2) and one
/// that is not: a fact cut by a block boundary. Random blocks of B at keep f: 2 f (1 - f) (span - 1) / B.
/// @return 0 when no span fits
[[nodiscard]] double split_rate(std::span<const double> loss, std::span<const std::uint8_t> is_protected,
                                std::int64_t span);

/// Mean of the worst `tail` share of the values, the last one in part (conditional value at risk,
/// Rockafellar and Uryasev, J. Risk 2000). Example: 0.05 of 30 values is the largest and half of the second.
[[nodiscard]] double conditional_value_at_risk(std::vector<double> values, double tail);

/// Position-stability index from success rates s(j) over `repeats` runs:
/// 1 - sqrt(max(0, Var_j s - mean[s (1 - s)] / (repeats - 1)) / (sbar (1 - sbar))); 1: the same everywhere,
/// 0: every position always works or always fails. With one repeat (deterministic scan) the correction is dropped.
/// @return 1 where sbar is 0 or 1; NaN for an empty scan
[[nodiscard]] double position_stability(std::span<const double> success, std::int64_t repeats);

}  // namespace kvtide::loss

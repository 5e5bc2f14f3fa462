#pragma once
// Does the level of a profile repeat with a period? Folding, with the two guards that keep coloured noise out:
// a specificity ratio against neighbouring periods, and a rotation test. An F test on the same fold calls
// 94 % of AR(1) noise periodic (rho 0.95, 4,096 positions), so none is made here.
//
// Example: a square wave of period 64 (32 low, 32 high): PI(64) = 1; PI(32) = 0, since both halves of the wave fold
// onto the same phases.

#include <cstdint>
#include <span>
#include <vector>

namespace kvtide::loss {

/// Bins of a test fold. Finer bins lose power: a step of 0.2 sd in white noise (N 4,096, P 128) is detected at 0.001 in
/// 98 % of cases with 8 bins, in 30 % with 128 (measured).
inline constexpr std::int64_t kTestBins = 8;

/// Subtracts a centred moving average over `period` positions (even: half-weight ends), which leaves any part of that
/// period intact and takes trends away. Positions whose window leaves the profile are dropped.
/// @return profile[first..] of length N - 2 * floor(period / 2) and `first` = floor(period / 2); empty when period >= N
struct Detrended {
  std::vector<double> values;
  std::int64_t first = 0;  ///< profile index of values[0]
};
[[nodiscard]] Detrended detrend(std::span<const double> profile, std::int64_t period);

/// The same for many periods of one profile, whose running sums are made once.
class Detrending {
 public:
  /// @param profile  outlives this
  explicit Detrending(std::span<const double> profile);
  [[nodiscard]] Detrended without_mean_over(std::int64_t period) const;

 private:
  std::span<const double> profile_;
  std::vector<double> sums_;  ///< of the first j values
};

/// Share of variance explained by the phase, min(kTestBins, period) bins. 0 for a constant profile.
[[nodiscard]] double eta_squared(std::span<const double> values, std::int64_t first, std::int64_t period);

/// Periodicity index 1 - (1 - eta^2)(N - 1)/(N - bins): mean 0 on white noise, 1 for an exact repetition of resolved
/// phases; 0 for a constant profile.
[[nodiscard]] double periodicity_index(double eta_squared, std::int64_t num_values, std::int64_t period);

struct LevelStatistics {
  double index = 0;  ///< PI
  double ratio = 0;  ///< eta^2 over its median across neighbouring periods; at most kMaxRatio; 0 without any
  double p = 1;      ///< rotation p; the gamma tail fitted to the rotations below their resolution
  std::int64_t rotations = 0;
};
inline constexpr double kMaxRatio = 1e6;

/// All three figures at one period. Needs at least two periods in the profile, else index 0, ratio 0, p 1.
/// @param seed         of the rotations
/// @param grid_offset  phase of profile[0]; bins begin at phase 0, which is sharpest when that is a block boundary
[[nodiscard]] LevelStatistics level_statistics(std::span<const double> profile, std::int64_t period, std::uint64_t seed,
                                               std::int64_t grid_offset = 0);

/// Rotation test: each period-long row is turned by an independent random amount; how often is the fold as sharp?
/// @param rotations  >= 99
/// @param first      phase of values[0]
[[nodiscard]] double rotation_p(std::span<const double> values, std::int64_t first, std::int64_t period,
                                std::int64_t rotations, std::uint64_t seed);

/// The period that folds best among 2..max_period, or one of its integer parts that folds nearly as well.
struct BlindLevel {
  std::int64_t period = 0;         ///< 0: nothing to search
  double independent_periods = 1;  ///< how many independent tests the search amounts to
};
[[nodiscard]] BlindLevel search_level(std::span<const double> profile, std::int64_t max_period);

/// The period at which the profile itself repeats, given one whose fold is sharp. Eight bins may resolve a saw-tooth at an
/// integer part of its period and not at the period: pools of 4 that begin anew in every block of 66 fold best at 22. So each position is a bin here, and what
/// counts is repetition(). Looked at: periods that the profile cannot tell from `found`, their multiples, and the parts of the best.
/// @param found  2..max_period
[[nodiscard]] std::int64_t repeating_period(std::span<const double> profile, std::int64_t found,
                                            std::int64_t max_period);

/// periodicity_index() of the detrended profile with one bin a phase: what all cycles have in common, 1 where they are
/// equal, mean 0 on white noise. 0 below two cycles.
[[nodiscard]] double repetition(const Detrending& profile, std::int64_t period);

/// The shortest period, seen three times or more, at which repetition() is at least `least` > 0 and nine tenths of the best; 0: none.
[[nodiscard]] std::int64_t shortest_repetition(std::span<const double> profile, double least);

/// p of the best of `tests` independent tests: 1 - (1 - p)^tests.
[[nodiscard]] double correct_for_search(double p, double tests);

}  // namespace kvtide::loss

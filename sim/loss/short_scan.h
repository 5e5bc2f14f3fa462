#pragma once
// Periods of which a scan saw only a few cycles, two or more: too few to fold and compare, so the cycles are compared with
// each other. Agreement at lag P is 1 - MSD(P) / (2 variance), MSD the mean squared difference between positions P
// apart; 1: the cycles are equal, 0: unrelated.
//
// How good an agreement must be is learnt from surrogates: AR(1) series with the scan's own autocorrelation and its own
// resampled innovations, searched over the same lags, so neither colour nor the search itself makes a period.

#include <cstdint>
#include <span>

namespace kvtide::loss {

struct ShortScan {
  std::int64_t period = 0;  ///< lag of best agreement, 0: none searched
  double agreement = 0;
  double p = 1;  ///< share of surrogates whose best lag agrees as well; resolution 1 / (surrogates + 1)
  std::int64_t surrogates = 0;
};

/// Agreement at `lag` without the `count` pairs that add most to it: what a word that the text has twice does not carry.
/// Example: 5 at two places of 2,000, `lag` apart, noise of 0.1 elsewhere: 2 * 25 / (50 + 20) = 0.7 with that pair, about 0 without.
[[nodiscard]] double agreement_without_best_pairs(std::span<const double> profile, std::int64_t lag, std::size_t count);

/// Of 8 to 32,768 positions; none else.
/// @param min_period,max_period  lags searched; max_period at most N / 2
[[nodiscard]] ShortScan search_short_scan(std::span<const double> profile, std::int64_t min_period,
                                          std::int64_t max_period, std::uint64_t seed);

}  // namespace kvtide::loss

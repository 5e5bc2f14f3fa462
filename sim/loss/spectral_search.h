#pragma once
// Blind search for one line in a spectrum: even positions by periodogram and Fisher's g (Fisher, Proc. R. Soc. A 125, 1929), uneven ones by
// Lomb and Scargle's periodogram with Baluev's bound on its false alarms (Baluev, MNRAS 385, 2008).
//
// Both take white noise as their null, so even profiles are pre-whitened first. A comb of narrow dips spreads over many lines: these tests
// look for waves, scan_period.h for combs.
//
// Example: N = 4,096, so 2,047 lines; g, the largest line over their sum, is above 0.00708 once in a thousand white profiles.

#include <cstdint>
#include <span>
#include <vector>

namespace kvtide::loss {

/// Residuals of an AR(1) fit, one fewer than values: white where the noise was AR(1). A wave stays a wave of the same period.
[[nodiscard]] std::vector<double> prewhitened(std::span<const double> values);

struct SpectralLine {
  double period = 0;       ///< positions (even) or units of `at` (uneven); 0: nothing to search
  double power = 0;        ///< even: g, share of the sum of lines; uneven: share of variance that the wave explains
  double p = 1;            ///< of a line as strong anywhere in white noise
  std::int64_t lines = 0;  ///< frequencies looked at
};

/// P(g > x) for m lines: sum over k of (-1)^(k-1) C(m, k) (1 - k x)^(m-1), k x < 1. In 0..1.
[[nodiscard]] double fisher_g_p(double g, std::int64_t lines);

/// Strongest of the floor((N - 1) / 2) lines of an even profile. Needs 8 positions.
[[nodiscard]] SpectralLine search_periodogram(std::span<const double> values);

/// Strongest wave at uneven places, a mean fitted with it (floating mean), periods from `shortest` to the extent, five frequencies a
/// resolution element. Needs 8 places. Baluev's bound holds for p below 0.1 or so; above it only says "not surely".
/// @param at        ascending, distinct
/// @param shortest  > 0, in units of `at`
[[nodiscard]] SpectralLine search_lomb_scargle(std::span<const double> at, std::span<const double> values,
                                               double shortest);

/// Baluev's bound for a power z (share of variance, 0..1), N points of position variance `variance_of_at`, frequencies up to `highest`.
[[nodiscard]] double baluev_p(double z, std::int64_t points, double variance_of_at, double highest);

}  // namespace kvtide::loss

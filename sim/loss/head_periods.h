#pragma once
// Which layers and heads have a level period, among many asked at once? Each head and candidate period gets a rotation p (fold_index.h); the
// Benjamini-Hochberg step (J. R. Statist. Soc. B 57, 1995) then keeps the share of false ones among those named at most q.
//
// Example: p = 0.001, 0.004, 0.2, 0.9 and q = 0.01: the largest k with p_(k) <= k q / 4 is k = 2 (0.004 <= 0.005), so the first two.

#include <cstdint>
#include <span>
#include <vector>

namespace kvtide::loss {

/// @return [test] 1 where it is among the discoveries at rate `q`
[[nodiscard]] std::vector<std::uint8_t> benjamini_hochberg(std::span<const double> p, double q);

struct HeadPeriods {
  std::vector<std::int64_t> period;    ///< candidates
  std::vector<double> p;               ///< [head, period] rotation p, counted, not extrapolated
  std::vector<std::uint8_t> is_found;  ///< [head, period]
  std::int64_t rotations = 0;          ///< R of every test: at least tests / q, so that one test alone could be found
  double q = 0;
};

/// @param profiles  [head][position]
/// @param periods   >= 2 each
/// @throws InputError  when tests / q exceeds 10,000,000 rotations
[[nodiscard]] HeadPeriods find_head_periods(const std::vector<std::vector<double>>& profiles,
                                            std::span<const std::int64_t> periods, std::uint64_t seed, double q = 0.01);

}  // namespace kvtide::loss

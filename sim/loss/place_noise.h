#pragma once
// Do the places of a scan differ by more than chance? Asked before any cause is named.
//
// Three tests of the success at k places (all two-sided or upper tails of a normal law):
//   trend       correlation r of success and place: z = r sqrt(k - 1), its variance under permutation being 1 / (k - 1)
//   serial      correlation r1 of neighbours, the line taken away: z = r1 sqrt(k); losses in runs, whatever the noise of a single place
//   dispersion  yes-or-no answers with repeats: sum of n (s - f)^2 / (f (1 - f)) over places against chi squared of k - 2, f the line
//               (Wilson and Hilferty 1931); single tries say nothing here: the sum is about k for every sequence
//
// Example: 200 single tries of a coin of success 0.85: some 30 places "fail", in runs as long as chance makes them: nothing differs.

#include "loss/outside_scan.h"

namespace kvtide::loss {

struct PlaceNoise {
  double trend_p = 1;
  double first = 0;  ///< success on the line at the first place
  double last = 0;   ///< and at the last one
  double serial_p = 1;
  double dispersion_p = 1;  ///< 1 where it cannot be asked

  /// A line that chance does not make (p <= 0.01), over at least 0.1 of success.
  [[nodiscard]] bool is_trend() const;
  /// Beside the line: serial or dispersion p <= 0.005, together 0.01.
  [[nodiscard]] bool differs() const;
};

/// @return all p 1 below kMinScanPoints places or where success is the same everywhere
[[nodiscard]] PlaceNoise place_noise(const OutsideScan& scan);

}  // namespace kvtide::loss

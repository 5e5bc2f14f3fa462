#pragma once
// Failures as events: do the places at which answers fail crowd at one phase of a period? The places scanned must themselves be spread
// evenly over phases, else crowding is theirs.
//
// Example: failures at 4, 68, 132, 196 and a period of 64: all at phase 4, R = 1, p = e^-4 = 0.018: four events prove little.

#include <cstdint>
#include <span>

namespace kvtide::loss {

struct EventPhase {
  std::int64_t events = 0;
  double length = 0;      ///< R: mean resultant length, 0..1
  double phase = 0;       ///< mean phase, 0..period
  double rayleigh_p = 1;  ///< exp(-n R^2), a good approximation from ten events on
  /// H statistic: max over m = 1..20 of Z_m^2 - 4 m + 4 (de Jager, Raubenheimer and Swanepoel, A&A 221, 1989).
  double h = 0;
  double h_p = 1;  ///< exp(-0.4 H) (de Jager and Buesching, A&A 517, 2010)
};

/// @param at  places of the events; none: p 1
/// @param period  > 0
[[nodiscard]] EventPhase event_phase(std::span<const double> at, double period);

}  // namespace kvtide::loss

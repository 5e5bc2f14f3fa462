#include "loss/event_phase.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kvtide::loss {

EventPhase event_phase(std::span<const double> at, double period) {
  EventPhase result;
  result.events = static_cast<std::int64_t>(at.size());
  if (at.empty()) return result;
  const auto n = static_cast<double>(at.size());
  constexpr int kHarmonics = 20;
  double z = 0;
  for (int harmonic = 1; harmonic <= kHarmonics; ++harmonic) {
    double cosine = 0;
    double sine = 0;
    for (const double place : at) {
      const double turns = place / period;
      const double angle = 2 * std::numbers::pi * harmonic * (turns - std::floor(turns));
      cosine += std::cos(angle);
      sine += std::sin(angle);
    }
    z += 2 / n * (cosine * cosine + sine * sine);
    if (harmonic == 1) {
      result.length = std::min(1.0, std::hypot(cosine, sine) / n);
      const double turns = std::atan2(sine, cosine) / (2 * std::numbers::pi);
      result.phase = (turns < -1e-12 ? turns + 1 : std::max(0.0, turns)) * period;
    }
    result.h = std::max(result.h, z - 4 * harmonic + 4);
  }
  result.rayleigh_p = std::exp(-n * result.length * result.length);
  result.h_p = std::exp(-0.4 * result.h);
  return result;
}

}  // namespace kvtide::loss

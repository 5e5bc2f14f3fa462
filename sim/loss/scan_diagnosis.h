#pragma once
// What somebody's own scan of a live system says: a period and how surely, where it fails, what that costs.
//
// Certainty, in falling order (p is that of the whole search, scan_period.h):
//   level      six cycles or more, p <= 0.005, phase index >= 0.05 and five times that of neighbouring periods; or, in scans of more
//              than 512 evenly spaced places, what find_period() calls level or grid_locked
//   likely     p <= 0.01 otherwise: two to five cycles never prove anything
//   suspected  0.01 < p <= 0.05: not enough data; says how many more points, at which step, would decide
//   none       else

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "loss/block_dependence.h"
#include "loss/danger_zone.h"
#include "loss/event_phase.h"
#include "loss/outside_scan.h"
#include "loss/place_noise.h"
#include "loss/scan_period.h"
#include "loss/spectral_search.h"

namespace kvtide::loss {

enum class ScanVerdict : std::uint8_t { none, suspected, likely, level };
[[nodiscard]] std::string_view to_string(ScanVerdict verdict);

struct PeriodFinding {
  ScanVerdict verdict = ScanVerdict::none;
  ScanPeriod search;  ///< `period` is what was found where verdict is likely or level
  double ratio = 0;   ///< phase share over its median at neighbouring periods
  /// Points that would reach six cycles (no candidate: that a first look needs); 0: none needed.
  std::int64_t further_points = 0;
  double further_step = 0;  ///< at this distance
  /// smallest_visible_dip() where nothing was found; in the unit of the values.
  double smallest_dip = std::numeric_limits<double>::quiet_NaN();
  /// Tokens: the period, or the multiple of 16 within two resolutions, and its halves down to 16; empty without a period in tokens.
  std::vector<std::int64_t> block_sizes;
  std::string certainty;  ///< one line for people
  [[nodiscard]] bool is_found() const { return verdict == ScanVerdict::likely || verdict == ScanVerdict::level; }
};

/// How deep a dip of an eighth of the period must be to be seen mostly, roughly: its bin holds k / 8 of k places, whose mean must lie 7
/// standard errors off. Of simulated scans (200 single tries of success 0.9, dips 8 of 64 wide) 2 of 12 were found at 5, 10 of 12 at 7.
/// Example: 200 single tries of success 0.85: 7 * 0.357 / sqrt(200 / 8) = 0.50.
[[nodiscard]] double smallest_visible_dip(const ScanSeries& series);

/// @param known_period  > 0: only this one is asked for
[[nodiscard]] PeriodFinding find_scan_period(const ScanSeries& series, std::string_view unit, std::uint64_t seed,
                                             double known_period = 0);

struct ScanCost {
  double mean_success = 0;
  double worst_success = 0;
  double mean_loss = 0;
  double worst_loss = 0;
  double worst_at = 0;       ///< place
  double cvar05 = 0;         ///< mean loss of the worst 5 % of places
  double failing_share = 0;  ///< of places
  /// Position-stability index; NaN: single yes-or-no tries, of which some fail (0 for coins too).
  double stability = 0;
  double worst_phase_over_mean = 0;  ///< of losses; NaN without a period or loss
  std::int64_t flips = 0;            ///< neighbouring places of which one fails and the other does not
};

struct ControlCheck {
  std::int64_t places = 0;  ///< with a control
  double mean_success = 0;
  bool is_valid = true;  ///< at most kControlAtChance, or nothing to check
};
/// With the fact removed a brittle probe succeeds at most this often.
inline constexpr double kControlAtChance = 0.2;

struct ScanDiagnosis {
  PeriodFinding period;
  BlockDependence block_dependence;  ///< asked of position scans without a period
  bool is_even = false;              ///< equally spaced places
  SpectralLine wave;    ///< beside the verdict: strongest wave, Fisher's g (even places, pre-whitened) or Lomb-Scargle
  EventPhase failures;  ///< beside the verdict: failing places folded on the period found; no events without one
  DangerZone danger;    ///< of the period found; `period` 0 without one
  std::vector<FailingRun> failing;
  PlaceNoise noise;  ///< do places differ by more than chance?
  ScanCost cost;
  ControlCheck control;
  PeriodFinding latency;                     ///< of latency_ms; verdict none without the column
  double latency_typical_ms = kNotMeasured;  ///< median
  double latency_worst_ms = kNotMeasured;
};

struct DiagnosisSettings {
  double known_block_size = 0;  ///< tokens (characters on an axis of characters); 0: searched for
  std::uint64_t seed = 1;
};

[[nodiscard]] ScanDiagnosis diagnose(const OutsideScan& scan, const DiagnosisSettings& settings = {});

}  // namespace kvtide::loss

#pragma once
// Two scans of the same probe, before and after an upgrade: better, worse or the same, judged place by place.
//
// Example: before 1 1 1 1 1 1 1 1, after 0 1 0 1 0 0 1 0 at the same places: five of five changes are for the worse, which coin tosses do
// once in 32 (or all for the better: p = 2/32 = 0.06).

#include <cstdint>
#include <string_view>

#include "loss/outside_scan.h"
#include "loss/scan_diagnosis.h"

namespace kvtide::loss {

enum class ScanChange : std::uint8_t { same, better, worse, period_changed };
[[nodiscard]] std::string_view to_string(ScanChange change);

/// What became of the period. cured, appeared: the scan without one, asked for the other's period alone, has p > 0.05; unclear: it suspects
/// that period, or cannot show it (too short, too coarse).
enum class PeriodChange : std::uint8_t { none, same, cured, appeared, moved, unclear };
[[nodiscard]] std::string_view to_string(PeriodChange change);

struct ScanComparison {
  std::int64_t common_places = 0;
  double mean_loss_change = 0;   ///< after - before, over common places; above 0: worse
  double worst_loss_change = 0;  ///< largest at one place
  double worst_change_at = 0;
  std::int64_t newly_failing = 0;  ///< places
  std::int64_t newly_right = 0;
  double stability_change = 0;  ///< after - before
  double p = 1;                 ///< of the mean change, signs of the differences flipped at random; two-sided
  std::int64_t flips = 0;       ///< random sign flips drawn
  /// worse: p <= 0.01 and a larger mean loss, or more places newly fail than newly answer (sign test <= 0.01); better: the reverse;
  /// period_changed: neither, and the period is cured, appeared or moved.
  ScanChange verdict = ScanChange::same;
  PeriodChange period = PeriodChange::none;
};

/// @param before, after  measured against the same: read_scans_to_compare()
/// @throws InputError  different axes or measures, or fewer than kMinCommonPlaces places in common
[[nodiscard]] ScanComparison compare_scans(const OutsideScan& before, const ScanDiagnosis& before_diagnosis,
                                           const OutsideScan& after, const ScanDiagnosis& after_diagnosis,
                                           std::uint64_t seed);

inline constexpr std::int64_t kMinCommonPlaces = 5;

}  // namespace kvtide::loss

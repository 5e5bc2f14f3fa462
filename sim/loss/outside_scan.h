#pragma once
// Somebody's own scan of a live system, read from CSV: at each place of a probe (or length of a prefix), did it answer?
//
// Columns: one of position (tokens), prefix_tokens, prefix_chars; one of correct (0 or 1), score (>= 0, more is better), logprob (of the
// answer, natural log). Optional: baseline (the same measure without compression), control (the same with the fact removed), repeat,
// probe_type, tokens (prompt length in tokens), latency_ms. Others are ignored. Rows of one place are repeats and are averaged. Where some
// rows have a baseline, those without are left out.
//
// Example: prefix_tokens,correct / 0,1 / 0,0 / 2,1 -> two places: success 0.5 (two repeats) and 1; loss 0.5 and 0.

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/csv_table.h"
#include "loss/scan_period.h"

namespace kvtide::loss {

enum class ScanAxis : std::uint8_t { position, prefix_tokens, prefix_chars };
enum class ScanMeasure : std::uint8_t { correct, score, logprob };
[[nodiscard]] std::string_view to_string(ScanAxis axis);
[[nodiscard]] std::string_view to_string(ScanMeasure measure);
/// "tokens" or "characters".
[[nodiscard]] std::string_view unit_of(ScanAxis axis);
/// "of answers", "of the score", "nats".
[[nodiscard]] std::string_view unit_of(ScanMeasure measure);

inline constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

struct ScanPoint {
  double at = 0;  ///< on the axis
  /// 0..1: share correct; score (over the best one where scores exceed 1); exp(logprob - baseline).
  double success = 0;
  /// Reference - measure; reference: the baseline, or without one 1 (best score where some exceed 1; logprob: 0).
  double loss = 0;
  double control = kNotMeasured;   ///< success with the fact removed
  double baseline = kNotMeasured;  ///< success without compression: 0..1, exp(logprob)
  double tokens = kNotMeasured;
  double latency_ms = kNotMeasured;
  std::int64_t repeats = 0;  ///< rows
};

struct OutsideScan {
  std::string origin;  ///< file
  ScanAxis axis = ScanAxis::position;
  ScanMeasure measure = ScanMeasure::correct;
  bool has_baseline = false;       ///< some rows have one, and it was used
  std::int64_t rows_left_out = 0;  ///< without a baseline where others have one; not in `rows`
  double best_score = 0;           ///< highest score or baseline; 0: no scores
  std::vector<ScanPoint> points;   ///< ascending in `at`, one a place
  std::int64_t rows = 0;
  std::int64_t repeats = 0;  ///< fewest rows of a place

  /// Success by kind of probe, in order of first appearance; empty without the column.
  struct Probe {
    std::string type;
    std::int64_t rows = 0;
    double mean_success = 0;
    double worst_success = 0;  ///< over places
  };
  std::vector<Probe> probes;

  [[nodiscard]] ScanSeries losses() const;
  /// Places with a latency; empty series without the column.
  [[nodiscard]] ScanSeries latencies() const;
  /// Tokens per unit of the axis, by least squares; 1 on an axis of tokens, NaN for characters without `tokens`.
  [[nodiscard]] double tokens_per_unit() const;
};

/// What a scan is measured against beside its own rows.
struct ScanReference {
  bool uses_baseline = true;  ///< false: as if the column were not there
  double best_score = 0;      ///< highest known from elsewhere; a higher one in the scan itself counts instead
};

/// @throws InputError with file, line and column: no such column, two of a kind, a value out of range, no rows
[[nodiscard]] OutsideScan read_outside_scan(const config::CsvTable& table, const ScanReference& reference = {});

/// Two scans measured against the same, so that their losses can be subtracted: the best score is that of both, and
/// where one has no baselines, the other's are not used.
/// Example: scores of 90 everywhere before and of 45 after: losses 0 and 45 (each against its own best: 0 and 0).
/// @throws as read_outside_scan
[[nodiscard]] std::pair<OutsideScan, OutsideScan> read_scans_to_compare(const config::CsvTable& before,
                                                                        const config::CsvTable& after);

}  // namespace kvtide::loss

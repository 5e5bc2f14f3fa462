#pragma once
// How well predicted losses rank measured ones.

#include <cstdint>
#include <vector>

#include "loss/answer_loss.h"
#include "loss/snowball.h"
#include "loss/validation/measured_scan.h"

namespace kvtide::loss {

inline constexpr double kChanceLoss = 9.2;      ///< nats, four digits at chance; measured losses are capped here
inline constexpr double kNoticeableLoss = 0.2;  ///< nats; rho is over rows above it

/// Probability that a failing row has the higher score, ties half. NaN without rows of both kinds.
/// Example: scores 1, 2, 3, failing the last two: 1; failing the outer two: 0.5.
[[nodiscard]] double area_under_curve(const std::vector<double>& scores, const std::vector<bool>& is_failing);

/// Spearman's rank correlation, mean ranks for ties. NaN below 3 pairs or where one side is constant.
[[nodiscard]] double rank_correlation(const std::vector<double>& x, const std::vector<double>& y);

/// A greedy answer of which this is the weakest margin is expected to be wrong: half-way to a guess among ten, where one
/// choice has all that the answer lost (0) or nine share it (-ln 9).
inline constexpr double kFailingMargin = -1.0986122886681098;  // -ln(9) / 2

struct PredictedRow {
  MeasuredRow measured;
  AnswerLoss predicted;
  Snowball snowball;
  std::vector<double> lost_by_layer = {};     ///< [layer] as AnswerReading has them
  std::vector<double> carried_by_layer = {};  ///< [layer]
};

/// Lengths of a prefix, mod the block size, at which an answer fails; a phase counts when any of its lengths fails.
/// Example: blocks of 64, failing at 61, 125 and 130: phases 2 and 61.
struct FailingPhases {
  std::vector<std::int64_t> both;            ///< ascending, measured and predicted
  std::vector<std::int64_t> only_measured;   ///< ascending
  std::vector<std::int64_t> only_predicted;  ///< ascending
};

/// Free-running answers against the estimate of their right tokens.
struct SnowballReport {
  std::int64_t rows = 0;
  double mean_measured = 0;   ///< right tokens before the first wrong one
  double mean_estimated = 0;  ///< the same, expected
  double mean_error = 0;      ///< |estimated - measured|, mean over rows
  double auc = 0;             ///< of the survival of all tokens against an exact answer
  double brier = 0;           ///< mean (survival of all tokens - exact)^2; 0.25 is a coin's
};

struct ConfigurationReport {
  MeasuredSetting setting;
  std::int64_t rows = 0;
  std::int64_t failing = 0;
  std::int64_t between = 0;    ///< rows above kNoticeableLoss and below kChanceLoss
  double auc = 0;              ///< of the weakest predicted margin: a greedy answer fails at its weakest token
  double rho = 0;              ///< predicted against measured loss, rows above kNoticeableLoss, capped at kChanceLoss
  double mean_measured = 0;    ///< capped
  double mean_predicted = 0;   ///< capped
  double worst_measured = 0;   ///< capped
  double worst_predicted = 0;  ///< capped
  FailingPhases phases;        ///< of prefix scans
};

struct ScanReport {
  std::vector<ConfigurationReport> configurations;  ///< the least certain first: by auc, then rho; NaN last
  double pooled_auc = 0;                            ///< over all eviction rows
  std::int64_t rows = 0;                            ///< of every policy
  SnowballReport trusted;                           ///< eviction rows whose estimate says that it can be trusted
  SnowballReport untrusted;                         ///< the other eviction rows
};

[[nodiscard]] ScanReport report_scans(const std::vector<PredictedRow>& rows);

}  // namespace kvtide::loss

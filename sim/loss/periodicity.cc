#include "loss/periodicity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "loss/edge_grid.h"
#include "loss/fold_index.h"
#include "loss/short_scan.h"

namespace kvtide::loss {
namespace {

constexpr std::int64_t kMinEdges = 3;
constexpr double kMinCycles = 6;
/// A jump grid is taken as proven, or as likely, up to this probability of a grid as coarse by chance.
constexpr double kProvenGrid = 0.02;
constexpr double kLikelyGrid = 0.1;
/// Gates of the level rule: false alarms on 4,096 positions 0 (white), 0.1 % (AR 0.95), 0.6 % (AR 0.99), measured.
constexpr double kLevelIndex = 0.05;
constexpr double kLevelRatio = 5;
constexpr double kLevelP = 0.005;
/// Gates of the edge index: its 99th percentile without a grid is 0.19 for clustered token eviction, measured.
constexpr double kEdgeIndex = 0.25;
constexpr double kEdgeP = 0.001;
constexpr double kEdgeShare = 0.2;
constexpr double kShortP = 0.005;
constexpr double kShortAgreement = 0.5;
/// A text has words twice, and heads read both: what so few pairs of positions carry is no period.
constexpr std::size_t kPairsOfAWord = 4;

/// What lies below the smallest double, as the power of many jumps does, is no 0.
std::string probability_text(double p) {
  return p < 1e-300 ? "< 1e-300" : fmt::format("{:.1e}", p);
}

/// The longest stretch of unprotected positions [begin, end).
std::pair<std::size_t, std::size_t> open_stretch(const PeriodQuestion& question) {
  if (question.is_protected.empty()) return {0, question.loss.size()};
  std::pair<std::size_t, std::size_t> longest{0, 0};
  std::size_t begin = 0;
  for (std::size_t j = 0; j <= question.loss.size(); ++j) {
    if (j < question.loss.size() && question.is_protected[j] == 0) continue;
    if (j - begin > longest.second - longest.first) longest = {begin, j};
    begin = j + 1;
  }
  return longest;
}

/// Does nothing but rounding vary? Losses are replayed in float32.
bool is_flat(std::span<const double> values) {
  if (values.empty()) return true;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  constexpr double kRounding = 1e-6;
  return *high - *low <= kRounding * std::max(std::abs(*low), std::abs(*high));
}

double offset_of_boundary(double boundary, double period) {
  const double offset = std::fmod(period - boundary, period);
  return offset < 0 ? offset + period : offset;
}

/// Everything the rules look at.
struct Evidence {
  std::span<const double> open;  ///< loss on the longest unprotected stretch
  std::int64_t open_begin = 0;   ///< position of open[0]
  std::vector<std::vector<double>> own_profile;
  const std::vector<std::vector<double>>* profiles = nullptr;
  std::vector<std::int64_t> jumps;
  std::vector<double> squared;

  [[nodiscard]] auto cycles(double period) const { return static_cast<double>(open.size()) / period; }
};

void set_period(const Evidence& evidence, const PeriodQuestion& question, PeriodKind kind, std::int64_t period,
                PeriodVerdict& verdict) {
  verdict.kind = kind;
  verdict.period = static_cast<double>(period);
  verdict.cycles = evidence.cycles(verdict.period);
  verdict.confirms_block_size = question.known_block_size > 0 && period % question.known_block_size == 0;
}

void set_level(const LevelStatistics& level, PeriodVerdict& verdict) {
  verdict.periodicity_index = level.index;
  verdict.periodicity_ratio = level.ratio;
  verdict.periodicity_p = level.p;
}

void set_edges(const EdgeIndex& edges, PeriodVerdict& verdict) {
  verdict.edge_index = edges.index;
  verdict.edge_p = edges.p;
}

/// Level statistics with bins that begin at the block boundaries found.
LevelStatistics level_on_grid(const Evidence& evidence, const PeriodQuestion& question, const PeriodVerdict& verdict) {
  return level_statistics(evidence.open, static_cast<std::int64_t>(verdict.period), question.seed,
                          static_cast<std::int64_t>(verdict.grid_offset) + evidence.open_begin);
}

/// Every jump of a noise-free profile on one grid.
bool exact_rule(const Evidence& evidence, const PeriodQuestion& question, PeriodVerdict& verdict) {
  if (question.head_mass_loss == nullptr) return false;
  const JumpGrid grid = jump_grid(evidence.jumps);
  if (grid.edges < kMinEdges || grid.period < 2 || grid.chance > kLikelyGrid) return false;
  const bool proven = grid.chance <= kProvenGrid;
  set_period(evidence, question, proven ? PeriodKind::grid_locked : PeriodKind::likely, grid.period, verdict);
  verdict.grid_offset = offset_of_boundary(static_cast<double>(grid.boundary), verdict.period);
  verdict.jumps_on_grid = 1;
  verdict.chance = grid.chance;
  set_level(level_on_grid(evidence, question, verdict), verdict);
  set_edges(edge_index(evidence.squared, grid.period), verdict);
  verdict.certainty = fmt::format("all {} jumps on one grid of {} (chance {}{})", grid.edges, grid.period,
                                  probability_text(grid.chance), proven ? "" : "; too few jumps to be sure");
  return true;
}

/// Jumps of a noisy mask that crowd on a grid.
bool edge_rule(const Evidence& evidence, const PeriodQuestion& question, PeriodVerdict& verdict) {
  const auto longest =
      std::min(question.max_period, static_cast<std::int64_t>(static_cast<double>(evidence.open.size()) / kMinCycles));
  const EdgeIndex edges = search_edge_index(evidence.squared, longest);
  set_edges(edges, verdict);
  // A replay without noise was judged by its jumps; what is left of it is no mask.
  if (question.head_mass_loss != nullptr || edges.period == 0 || !is_mask_like(*evidence.profiles)) return false;
  if (edges.index < kEdgeIndex || edges.p > kEdgeP || edges.share < kEdgeShare) return false;
  set_period(evidence, question, PeriodKind::grid_locked, edges.period, verdict);
  verdict.grid_offset = offset_of_boundary(std::round(edges.boundary), verdict.period);
  verdict.chance = edges.p;
  verdict.jumps_on_grid = edges.share;
  set_level(level_on_grid(evidence, question, verdict), verdict);
  verdict.certainty = fmt::format("jumps crowd on a grid of {}: edge index {:.2f}, p {}", edges.period, edges.index,
                                  probability_text(edges.p));
  return true;
}

/// A level that repeats, six cycles or more.
bool level_rule(const Evidence& evidence, const PeriodQuestion& question, PeriodVerdict& verdict) {
  const auto longest =
      std::min(question.max_period, static_cast<std::int64_t>(static_cast<double>(evidence.open.size()) / kMinCycles));
  const BlindLevel search = search_level(evidence.open, longest);
  if (search.period == 0) return false;
  LevelStatistics level = level_statistics(evidence.open, search.period, question.seed);
  level.p = correct_for_search(level.p, search.independent_periods);
  set_level(level, verdict);
  if (level.index < kLevelIndex || level.ratio < kLevelRatio || level.p > kLevelP) return false;
  // The chance is that of the fold that was found; what repeats may be a multiple of it.
  const std::int64_t period = repeating_period(evidence.open, search.period, longest);
  const double repeated = repetition(Detrending(evidence.open), period);
  if (repeated < kLevelIndex) return false;
  set_period(evidence, question, PeriodKind::level, period, verdict);
  verdict.chance = level.p;
  if (period != search.period) {
    level = level_statistics(evidence.open, period, question.seed);
    level.p = correct_for_search(level.p, search.independent_periods);
    set_level(level, verdict);
  }
  verdict.certainty = fmt::format("level repeats every {} positions ({:.0f} % of the variance): p {} after the search",
                                  period, 100 * repeated, probability_text(verdict.chance));
  return true;
}

/// Two cycles or more: never more than likely.
bool short_rule(const Evidence& evidence, const PeriodQuestion& question, PeriodVerdict& verdict) {
  const auto n = static_cast<std::int64_t>(evidence.open.size());
  const ShortScan scan =
      search_short_scan(evidence.open, static_cast<std::int64_t>(static_cast<double>(n) / kMinCycles) + 1,
                        std::min(question.max_period, n / 2), question.seed);
  if (scan.period == 0 || scan.agreement < kShortAgreement || scan.p > kShortP) return false;
  if (agreement_without_best_pairs(evidence.open, scan.period, kPairsOfAWord) < scan.agreement / 2) return false;
  // Places may agree best at a multiple of what they repeat with.
  const std::int64_t shorter = shortest_repetition(evidence.open, 0.8 * scan.agreement);
  const std::int64_t period = shorter > 0 && shorter < scan.period ? shorter : scan.period;
  set_period(evidence, question, PeriodKind::likely, period, verdict);
  set_level(level_statistics(evidence.open, period, question.seed), verdict);
  verdict.chance = scan.p;
  const auto missing = static_cast<std::int64_t>(std::ceil(kMinCycles * verdict.period)) - n;
  verdict.certainty = fmt::format("{:.1f} cycles of {} agree ({:.2f}, p {:.3f}, resolution {:.3f})", verdict.cycles,
                                  period, scan.agreement, scan.p, 1.0 / static_cast<double>(scan.surrogates + 1));
  if (missing > 0) verdict.certainty += fmt::format("; {} more positions would prove it", missing);
  return true;
}

}  // namespace

std::string_view to_string(PeriodKind kind) {
  switch (kind) {
    case PeriodKind::none:
      return "none";
    case PeriodKind::level:
      return "level";
    case PeriodKind::grid_locked:
      return "grid_locked";
    case PeriodKind::likely:
      return "likely";
  }
  return "";
}

PeriodVerdict find_period(const PeriodQuestion& question) {
  KVTIDE_ASSERT(question.is_protected.empty() || question.is_protected.size() == question.loss.size(),
                "one protection flag a position");
  const auto [begin, end] = open_stretch(question);
  Evidence evidence;
  evidence.open = question.loss.subspan(begin, end - begin);
  evidence.open_begin = static_cast<std::int64_t>(begin);
  if (question.head_mass_loss != nullptr) {
    evidence.profiles = question.head_mass_loss;
    evidence.jumps = jump_positions(*evidence.profiles);
  } else {
    // Outside the stretch the profile is held constant: the step from protected to open says nothing about a grid.
    std::vector<double> held(question.loss.begin(), question.loss.end());
    for (std::size_t j = 0; j < held.size() && begin < end; ++j) held[j] = question.loss[std::clamp(j, begin, end - 1)];
    evidence.own_profile.push_back(std::move(held));
    evidence.profiles = &evidence.own_profile;
  }
  evidence.squared = squared_jumps(*evidence.profiles);
  PeriodVerdict verdict;
  verdict.edges = static_cast<std::int64_t>(evidence.jumps.size());
  // Without a replay's jumps a level that repeats goes first: both edges of a dip are jumps, and a grid that holds both is finer than
  // the period (dips 20 wide every 96: grid 4).
  const bool is_outside = question.head_mass_loss == nullptr;
  if (exact_rule(evidence, question, verdict)) return verdict;
  if (!is_flat(evidence.open) &&
      ((is_outside && level_rule(evidence, question, verdict)) || edge_rule(evidence, question, verdict) ||
       (!is_outside && level_rule(evidence, question, verdict)) || short_rule(evidence, question, verdict))) {
    return verdict;
  }
  verdict.certainty = verdict.edges > 0 && verdict.edges < kMinEdges
                          ? fmt::format("no period found: {} jumps, a grid needs {}", verdict.edges, kMinEdges)
                          : "no period found";
  return verdict;
}

}  // namespace kvtide::loss

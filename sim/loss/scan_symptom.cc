#include "loss/scan_symptom.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace kvtide::loss {
namespace {

/// A mean that looks good, and places that are not.
constexpr double kGoodMean = 0.8;
constexpr double kBadPlace = 0.2;
/// Below this mean success nothing is left to be periodic.
constexpr double kFloor = 0.2;
/// Losses within this of zero everywhere: nothing happened to the cache.
constexpr double kNothing = 1e-9;
constexpr double kSpike = 1.2;  ///< worst latency over the median

bool nothing_is_lost(const OutsideScan& scan) {
  for (const ScanPoint& point : scan.points) {
    if (std::abs(point.loss) > kNothing) return false;
  }
  return true;
}

/// What the full cache, where it was asked too, answers at the same places.
struct BesideBaseline {
  std::int64_t own_flips = 0;  ///< changes of the answer that the full cache does not show at the same step
  double worst_success = 1;    ///< of places that the full cache answers
  double worst_at = 0;
  double baseline_success = kNotMeasured;  ///< mean of the full cache
};

BesideBaseline beside_baseline(const OutsideScan& scan) {
  BesideBaseline result;
  double sum = 0;
  std::int64_t asked = 0;
  const ScanPoint* before = nullptr;
  for (const ScanPoint& point : scan.points) {
    const auto fails_as_well = [](const ScanPoint& one) { return (one.success < kFails) == (one.baseline < kFails); };
    if (before != nullptr && (point.success < kFails) != (before->success < kFails)) {
      const bool is_shared = !std::isnan(point.baseline) && !std::isnan(before->baseline) && fails_as_well(point) &&
                             fails_as_well(*before);
      result.own_flips += is_shared ? 0 : 1;
    }
    before = &point;
    if (!std::isnan(point.baseline)) {
      ++asked;
      sum += point.baseline;
    }
    if (!(point.baseline < kFails) && point.success < result.worst_success) {
      result.worst_success = point.success;
      result.worst_at = point.at;
    }
  }
  if (asked > 0) result.baseline_success = sum / static_cast<double>(asked);
  return result;
}

std::string period_text(const PeriodFinding& finding, std::string_view unit) {
  return fmt::format("{:g} {}", finding.search.period, unit);
}

/// What the rules look at.
struct Evidence {
  const OutsideScan& scan;
  const ScanDiagnosis& diagnosis;
  BesideBaseline beside;
  bool is_nothing_lost = false;
  bool is_too_hard = false;  ///< the full cache fails as well

  [[nodiscard]] const ScanCost& cost() const { return diagnosis.cost; }
  [[nodiscard]] bool has_period() const { return diagnosis.period.is_found(); }
  /// Whether it is a matter of single places: a trend beside nothing else is none.
  [[nodiscard]] bool places_matter() const {
    const PlaceNoise& noise = diagnosis.noise;
    return has_period() || diagnosis.block_dependence.is_found() || (noise.differs() && !noise.is_trend());
  }
  /// Neither none nor all.
  [[nodiscard]] bool some_places_fail() const { return cost().failing_share > 0 && cost().failing_share < 1 - 1e-9; }
};

/// What a scan shows of one thing, or nothing.
using Rule = std::optional<Symptom> (*)(const Evidence& seen);

std::optional<Symptom> probe_symptom(const Evidence& seen) {
  const ControlCheck& control = seen.diagnosis.control;
  if (control.is_valid) return std::nullopt;
  return Symptom{
      "probe_not_brittle", fmt::format("with the fact removed {:.0f} % still answer", 100 * control.mean_success),
      "the answer follows from common sense or from another place of the text",
      "ask for something that is in one place only (a random code)", "change the probe; nothing else here counts"};
}

std::optional<Symptom> no_loss_symptom(const Evidence& seen) {
  if (!seen.is_nothing_lost || seen.cost().mean_success < kFails || seen.is_too_hard) return std::nullopt;
  return Symptom{"no_compression_seen", "no loss at any place",
                 "compression configured but not at work, or harmless for this probe",
                 "is the attended KV length in the engine's log below the sequence length? block_size, cache_budget, "
                 "ratio in its start-up lines?",
                 "none needed, or switch it on; else a longer context and a probe with smaller margin"};
}

std::optional<Symptom> trend_symptom(const Evidence& seen) {
  const PlaceNoise& noise = seen.diagnosis.noise;
  if (!noise.is_trend()) return std::nullopt;
  const bool falls = noise.last < noise.first;
  const PeriodFinding& period = seen.diagnosis.period;
  // One failing stretch at an end is a trend as well as the edge of a dip that comes again beyond the scan.
  const bool is_one_stretch = !period.is_found() && seen.diagnosis.failing.size() == 1 && period.further_points > 0;
  return Symptom{
      falls ? "falls_with_position" : "rises_with_position",
      fmt::format("success {} with the place, from {:.2f} to {:.2f} on a line{}", falls ? "falls" : "rises",
                  std::clamp(noise.first, 0.0, 1.0), std::clamp(noise.last, 0.0, 1.0),
                  period.is_found() ? ", beside the period" : ", with no period"),
      falls ? "the place itself, not blocks: models answer by the place of a fact without any compression too"
            : "the place itself, not blocks: a budget of recent tokens drops the oldest, and models answer late facts "
              "better without any compression too",
      "the same scan without compression: does the line stay?",
      is_one_stretch ? fmt::format("scan {} more points at step {:g} first: one failing stretch may come again as the "
                                   "dip of a longer block",
                                   period.further_points, period.further_step)
                     : "if it goes: keep more, or score with the question in view; padding cannot help"};
}

std::optional<Symptom> noise_symptom(const Evidence& seen) {
  if (seen.diagnosis.noise.is_trend() || seen.places_matter() || !seen.some_places_fail()) return std::nullopt;
  return Symptom{
      "not_told_from_noise",
      fmt::format("{:.1f} % of places fail, no more unevenly than chance would have it",
                  100 * seen.cost().failing_share),
      "none can be named: a bad place looks like bad luck",
      seen.scan.repeats > 1 ? "more repeats at each place" : "five tries or more at each place (repeated rows)",
      "none yet"};
}

std::optional<Symptom> flip_symptom(const Evidence& seen) {
  const std::int64_t flips = seen.cost().flips, own_flips = seen.beside.own_flips;
  if (seen.scan.axis == ScanAxis::position || flips == 0 || !seen.places_matter()) return std::nullopt;
  const std::string steps = fmt::format("{} steps of {:g} {}", seen.scan.points.size() - 1, seen.scan.losses().step(),
                                        unit_of(seen.scan.axis));
  if (own_flips == 0) {
    return Symptom{"flips_without_compression",
                   fmt::format("the answer changes at {} of {}, and with the full cache at the same", flips, steps),
                   "the model itself reads the longer prompt otherwise: not the cache",
                   "other words in front, of the same length: do the same places fail?",
                   "none that concerns compression"};
  }
  return Symptom{"flips_with_prefix",
                 fmt::format("the answer changes at {} of {}{}", own_flips, steps,
                             own_flips < flips ? " where that with the full cache does not" : ""),
                 "block boundaries move across the fact as the prefix grows",
                 seen.scan.has_baseline
                     ? "same content with the prefix cache off: does it stay right?"
                     : "same content with the prefix cache off and with full KV: does it stay right?",
                 "pad prompts to a fixed length; see the remedies"};
}

std::optional<Symptom> period_symptom(const Evidence& seen) {
  if (!seen.has_period()) return std::nullopt;
  const std::string period = period_text(seen.diagnosis.period, unit_of(seen.scan.axis));
  if (!seen.diagnosis.danger.intervals.empty()) {
    return Symptom{"dips_at_equal_distances", fmt::format("failures repeat every {}", period),
                   "the cache is compressed in blocks of that size (or of a divisor)",
                   "look for block_size, kv_compression, cache_budget in the engine's settings; change it: does the "
                   "period follow?",
                   "see the remedies"};
  }
  if (seen.cost().failing_share > 0) {
    return Symptom{"period_beside_failures",
                   fmt::format("losses repeat every {}, and {:.1f} % of places fail, at no phase most of them", period,
                               100 * seen.cost().failing_share),
                   "blocks of that size (or of a divisor) add to a loss that has another reason",
                   "the same scan without compression: what is left of the failures?",
                   "first the other reason; padding cannot help"};
  }
  return Symptom{"harmless_period", fmt::format("losses repeat every {}, but no place fails", period),
                 "blocks of that size (or of a divisor), with room to spare",
                 "harder probes and a longer context: does the period reach the answers?",
                 "keep, and watch the stability"};
}

std::optional<Symptom> bad_place_symptom(const Evidence& seen) {
  const double mean = seen.cost().mean_success;
  if (!seen.places_matter() || mean < kGoodMean || seen.beside.worst_success > kBadPlace) return std::nullopt;
  return Symptom{"good_mean_bad_places",
                 fmt::format("mean success {:.2f}, worst place {:.2f} (at {:g})", mean, seen.beside.worst_success,
                             seen.beside.worst_at),
                 "an average hides single places: a fact is lost where a block is",
                 "report worst place and stability beside the mean", "gate on --min-stability; see the remedies"};
}

std::optional<Symptom> low_mean_symptom(const Evidence& seen) {
  const double mean = seen.cost().mean_success;
  if (seen.is_too_hard || (seen.is_nothing_lost && mean < kFails)) {
    return Symptom{"fails_without_compression",
                   seen.is_too_hard
                       ? fmt::format("success {:.2g} in the mean with the full cache", seen.beside.baseline_success)
                       : fmt::format("mean success {:.2f}, and no more with the full cache", mean),
                   "the probe is too hard for the model, or the answer is not compared as it is written",
                   "the same probe in a short context", "an easier probe; nothing here says what compression does"};
  }
  if (mean >= kFloor) return std::nullopt;
  return Symptom{"fails_everywhere", fmt::format("mean success {:.2f}", mean),
                 "too little is kept: no freely chosen block is left, or the codec is too coarse",
                 "the same scan at a milder ratio; count the free blocks (blocks kept less the protected ones)",
                 "keep more, or compress fewer layers; padding cannot help"};
}

std::optional<Symptom> block_symptom(const Evidence& seen) {
  const BlockDependence& blocks = seen.diagnosis.block_dependence;
  if (!blocks.is_found()) return std::nullopt;
  std::vector<std::string> lost;
  for (const BlockDependence::Block& block : blocks.blocks) {
    if (block.mean_success < kFails) lost.push_back(fmt::format("{:g}", block.begin));
  }
  return Symptom{
      "depends_on_block",
      fmt::format("the block of {:g} that the fact falls in decides ({:.0f} % of the variance, p {:.3f}); lost from {}",
                  blocks.block_size, 100 * blocks.variance_share, blocks.p,
                  lost.empty() ? "none" : fmt::format("{}", fmt::join(lost, ", "))),
      "blocks are dropped before the question is seen: the same ones for every fact",
      "a prefix scan with the fact fixed: there the block size shows as a period",
      "score with the question in view, protect anchors, or keep more; padding moves the loss elsewhere"};
}

std::optional<Symptom> place_symptom(const Evidence& seen) {
  const std::size_t stretches = seen.diagnosis.failing.size();
  if (seen.scan.axis != ScanAxis::position || seen.diagnosis.block_dependence.is_found() || seen.has_period() ||
      !seen.places_matter() || !seen.some_places_fail() || stretches > seen.scan.points.size() / 4) {
    return std::nullopt;
  }
  return Symptom{"depends_on_place", fmt::format("{} stretches fail, at no equal distances", stretches),
                 "which block is dropped depends on the text around it, not on the place in the block",
                 "a prefix scan with the fact fixed: there the block size shows as a period",
                 "protect anchors, keep more, or score with the question in view"};
}

std::optional<Symptom> latency_symptom(const Evidence& seen) {
  const double spike = seen.diagnosis.latency_worst_ms / seen.diagnosis.latency_typical_ms;
  if (!seen.diagnosis.latency.is_found() || !(spike >= kSpike)) return std::nullopt;
  return Symptom{"periodic_latency_spikes",
                 fmt::format("latency up to {:.1f} times the median, every {}", spike,
                             period_text(seen.diagnosis.latency, unit_of(seen.scan.axis))),
                 "a block or a residual window is compressed (flushed) when it fills, in one step",
                 "does the period equal the block size or the residual window? does it move with the prompt's length?",
                 "compress in the background or in smaller groups; spread flushes over sequences"};
}

}  // namespace

std::vector<Symptom> symptoms_of(const OutsideScan& scan, const ScanDiagnosis& diagnosis) {
  Evidence seen{.scan = scan, .diagnosis = diagnosis, .beside = beside_baseline(scan)};
  seen.is_nothing_lost = nothing_is_lost(scan);
  seen.is_too_hard = seen.beside.baseline_success < kFloor;
  std::vector<Rule> rules{probe_symptom};
  // A handful of places says nothing about the others.
  if (scan.points.size() >= kMinScanPoints) {
    rules = {probe_symptom,     no_loss_symptom,  trend_symptom, noise_symptom, flip_symptom,   period_symptom,
             bad_place_symptom, low_mean_symptom, block_symptom, place_symptom, latency_symptom};
  }
  std::vector<Symptom> symptoms;
  for (const Rule rule : rules) {
    if (std::optional<Symptom> symptom = rule(seen)) symptoms.push_back(std::move(*symptom));
  }
  return symptoms;
}

}  // namespace kvtide::loss

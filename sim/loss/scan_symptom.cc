#include "loss/scan_symptom.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

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

}  // namespace

std::vector<Symptom> symptoms_of(const OutsideScan& scan, const ScanDiagnosis& diagnosis) {
  std::vector<Symptom> result;
  const std::string_view unit = unit_of(scan.axis);
  const ScanCost& cost = diagnosis.cost;
  const bool is_prefix = scan.axis != ScanAxis::position;
  const std::string step = fmt::format("{:g}", scan.losses().step());
  if (!diagnosis.control.is_valid) {
    result.push_back({"probe_not_brittle",
                      fmt::format("with the fact removed {:.0f} % still answer", 100 * diagnosis.control.mean_success),
                      "the answer follows from common sense or from another place of the text",
                      "ask for something that is in one place only (a random code)",
                      "change the probe; nothing else here counts"});
  }
  // A handful of places says nothing about the others.
  if (scan.points.size() < kMinScanPoints) return result;
  const bool is_nothing_lost = nothing_is_lost(scan);
  const BesideBaseline beside = beside_baseline(scan);
  const bool is_too_hard = beside.baseline_success < kFloor;
  const BlockDependence& blocks = diagnosis.block_dependence;
  const PlaceNoise& noise = diagnosis.noise;
  // A trend beside nothing else is no matter of single places.
  const bool places_matter = diagnosis.period.is_found() || blocks.is_found() || (noise.differs() && !noise.is_trend());
  if (is_nothing_lost && cost.mean_success >= kFails && !is_too_hard) {
    result.push_back({"no_compression_seen", "no loss at any place",
                      "compression configured but not at work, or harmless for this probe",
                      "is the attended KV length in the engine's log below the sequence length? block_size, "
                      "cache_budget, ratio in its "
                      "start-up lines?",
                      "none needed, or switch it on; else a longer context and a probe with smaller margin"});
  }
  if (noise.is_trend()) {
    const bool falls = noise.last < noise.first;
    // One failing stretch at an end is a trend as well as the edge of a dip that comes again beyond the scan.
    const bool is_one_stretch =
        !diagnosis.period.is_found() && diagnosis.failing.size() == 1 && diagnosis.period.further_points > 0;
    result.push_back(
        {falls ? "falls_with_position" : "rises_with_position",
         fmt::format("success {} with the place, from {:.2f} to {:.2f} on a line{}", falls ? "falls" : "rises",
                     std::clamp(noise.first, 0.0, 1.0), std::clamp(noise.last, 0.0, 1.0),
                     diagnosis.period.is_found() ? ", beside the period" : ", with no period"),
         falls
             ? "the place itself, not blocks: models answer by the place of a fact without any compression too"
             : "the place itself, not blocks: a budget of recent tokens drops the oldest, and models answer late facts "
               "better without any compression too",
         "the same scan without compression: does the line stay?",
         is_one_stretch
             ? fmt::format("scan {} more points at step {:g} first: one failing stretch may come again as the "
                           "dip of a longer block",
                           diagnosis.period.further_points, diagnosis.period.further_step)
             : "if it goes: keep more, or score with the question in view; padding cannot help"});
  } else if (!places_matter && cost.failing_share > 0 && cost.failing_share < 1 - 1e-9) {
    result.push_back(
        {"not_told_from_noise",
         fmt::format("{:.1f} % of places fail, no more unevenly than chance would have it", 100 * cost.failing_share),
         "none can be named: a bad place looks like bad luck",
         scan.repeats > 1 ? "more repeats at each place" : "five tries or more at each place (repeated rows)",
         "none yet"});
  }
  if (is_prefix && beside.own_flips > 0 && places_matter) {
    result.push_back(
        {"flips_with_prefix",
         fmt::format("the answer changes at {} of {} steps of {} {}{}", beside.own_flips, scan.points.size() - 1, step,
                     unit, beside.own_flips < cost.flips ? " where that with the full cache does not" : ""),
         "block boundaries move across the fact as the prefix grows",
         scan.has_baseline ? "same content with the prefix cache off: does it stay right?"
                           : "same content with the prefix cache off and with full KV: does it stay right?",
         "pad prompts to a fixed length; see the remedies"});
  } else if (is_prefix && cost.flips > 0 && places_matter) {
    result.push_back({"flips_without_compression",
                      fmt::format("the answer changes at {} of {} steps of {} {}, and with the full cache at the same",
                                  cost.flips, scan.points.size() - 1, step, unit),
                      "the model itself reads the longer prompt otherwise: not the cache",
                      "other words in front, of the same length: do the same places fail?",
                      "none that concerns compression"});
  }
  if (diagnosis.period.is_found() && !diagnosis.danger.intervals.empty()) {
    result.push_back({"dips_at_equal_distances",
                      fmt::format("failures repeat every {}", period_text(diagnosis.period, unit)),
                      "the cache is compressed in blocks of that size (or of a divisor)",
                      "look for block_size, kv_compression, cache_budget in the engine's settings; change it: does the "
                      "period follow?",
                      "see the remedies"});
  } else if (diagnosis.period.is_found() && cost.failing_share > 0) {
    result.push_back({"period_beside_failures",
                      fmt::format("losses repeat every {}, and {:.1f} % of places fail, at no phase most of them",
                                  period_text(diagnosis.period, unit), 100 * cost.failing_share),
                      "blocks of that size (or of a divisor) add to a loss that has another reason",
                      "the same scan without compression: what is left of the failures?",
                      "first the other reason; padding cannot help"});
  } else if (diagnosis.period.is_found()) {
    result.push_back({"harmless_period",
                      fmt::format("losses repeat every {}, but no place fails", period_text(diagnosis.period, unit)),
                      "blocks of that size (or of a divisor), with room to spare",
                      "harder probes and a longer context: does the period reach the answers?",
                      "keep, and watch the stability"});
  }
  if (places_matter && cost.mean_success >= kGoodMean && beside.worst_success <= kBadPlace) {
    result.push_back({"good_mean_bad_places",
                      fmt::format("mean success {:.2f}, worst place {:.2f} (at {:g})", cost.mean_success,
                                  beside.worst_success, beside.worst_at),
                      "an average hides single places: a fact is lost where a block is",
                      "report worst place and stability beside the mean", "gate on --min-stability; see the remedies"});
  }
  if (is_too_hard || (is_nothing_lost && cost.mean_success < kFails)) {
    result.push_back({"fails_without_compression",
                      is_too_hard
                          ? fmt::format("success {:.2g} in the mean with the full cache", beside.baseline_success)
                          : fmt::format("mean success {:.2f}, and no more with the full cache", cost.mean_success),
                      "the probe is too hard for the model, or the answer is not compared as it is written",
                      "the same probe in a short context", "an easier probe; nothing here says what compression does"});
  } else if (cost.mean_success < kFloor) {
    result.push_back({"fails_everywhere", fmt::format("mean success {:.2f}", cost.mean_success),
                      "too little is kept: no freely chosen block is left, or the codec is too coarse",
                      "the same scan at a milder ratio; count the free blocks (blocks kept less the protected ones)",
                      "keep more, or compress fewer layers; padding cannot help"});
  }
  if (blocks.is_found()) {
    std::vector<std::string> lost;
    for (const BlockDependence::Block& block : blocks.blocks) {
      if (block.mean_success < kFails) lost.push_back(fmt::format("{:g}", block.begin));
    }
    result.push_back(
        {"depends_on_block",
         fmt::format(
             "the block of {:g} that the fact falls in decides ({:.0f} % of the variance, p {:.3f}); lost from {}",
             blocks.block_size, 100 * blocks.variance_share, blocks.p,
             lost.empty() ? "none" : fmt::format("{}", fmt::join(lost, ", "))),
         "blocks are dropped before the question is seen: the same ones for every fact",
         "a prefix scan with the fact fixed: there the block size shows as a period",
         "score with the question in view, protect anchors, or keep more; padding moves the loss elsewhere"});
  } else if (!is_prefix && !diagnosis.period.is_found() && places_matter && cost.failing_share > 0 &&
             cost.failing_share < 1 - 1e-9 && diagnosis.failing.size() <= scan.points.size() / 4) {
    result.push_back({"depends_on_place",
                      fmt::format("{} stretches fail, at no equal distances", diagnosis.failing.size()),
                      "which block is dropped depends on the text around it, not on the place in the block",
                      "a prefix scan with the fact fixed: there the block size shows as a period",
                      "protect anchors, keep more, or score with the question in view"});
  }
  const double spike = diagnosis.latency_worst_ms / diagnosis.latency_typical_ms;
  if (diagnosis.latency.is_found() && spike >= kSpike) {
    result.push_back(
        {"periodic_latency_spikes",
         fmt::format("latency up to {:.1f} times the median, every {}", spike, period_text(diagnosis.latency, unit)),
         "a block or a residual window is compressed (flushed) when it fills, in one step",
         "does the period equal the block size or the residual window? does it move with the prompt's length?",
         "compress in the background or in smaller groups; spread flushes over sequences"});
  }
  return result;
}

}  // namespace kvtide::loss

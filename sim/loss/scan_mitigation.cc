#include "loss/scan_mitigation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace kvtide::loss {
namespace {

double modulo(double value, double period) {
  const double rest = value - period * std::floor(value / period);
  return rest >= period ? 0 : rest;
}

/// Everything the remedies share.
struct Situation {
  const DangerZone& zone;
  std::string unit;
  double period;
  double widest;           ///< longest interval to avoid
  double tokens_per_unit;  ///< NaN: not known
  double kv_bytes_per_token;

  [[nodiscard]] double bytes(double units) const { return units * tokens_per_unit * kv_bytes_per_token; }
};

/// Prompt length in tokens less the length of the prefix, where the scan says both; NaN else.
double tokens_beside_prefix(const OutsideScan& scan) {
  if (scan.axis != ScanAxis::prefix_tokens) return kNotMeasured;
  double sum = 0;
  double count = 0;
  for (const ScanPoint& point : scan.points) {
    if (std::isnan(point.tokens)) continue;
    sum += point.tokens - point.at;
    count += 1;
  }
  return count > 0 ? std::round(sum / count) : kNotMeasured;
}

void add_padding(const Situation& now, double current, double beside, std::vector<Mitigation>& result) {
  const Interval safe = now.zone.longest_safe();
  if (safe.length() <= 0) return;
  // Whole tokens; the middle is furthest from both edges of the danger.
  const double target = modulo(std::floor(safe.begin + safe.length() / 2), now.period);
  const double pad = modulo(target - current, now.period);
  Mitigation fixed;
  fixed.name = "pad to one length";
  fixed.action = fmt::format("pad the prompt by {:g} {} so that its place is {:g} mod {:g} (today {:g}: {:g})", pad,
                             now.unit, target, now.period, current, modulo(current, now.period));
  if (!std::isnan(beside)) {
    fixed.action += fmt::format(": prompts of {:g} mod {:g} tokens", modulo(target + beside, now.period), now.period);
  }
  fixed.mean_units = (now.period - 1) / 2;
  fixed.most_units = now.period - 1;
  fixed.mean_bytes = now.bytes(fixed.mean_units);
  fixed.price = fmt::format("{:g} {} now; {:g} on average over prompts of any length, at most {:g}", pad, now.unit,
                            fixed.mean_units, fixed.most_units);
  Mitigation needed;
  needed.name = "pad out of danger";
  double sum = 0;
  const auto residues = static_cast<std::int64_t>(std::max(1.0, std::floor(now.period)));
  for (std::int64_t residue = 0; residue < residues; ++residue) {
    const double units = padding_out_of_danger(now.zone, static_cast<double>(residue));
    sum += units;
    needed.most_units = std::max(needed.most_units, units);
  }
  needed.mean_units = sum / static_cast<double>(residues);
  needed.mean_bytes = now.bytes(needed.mean_units);
  std::string rules;
  for (const Interval& interval : now.zone.avoid) {
    std::vector<std::string> places;
    for (const Interval& part : within_one_turn(interval, now.period)) {
      places.push_back(fmt::format("{:g} to {:g}", part.begin, part.end - 1));
    }
    rules += fmt::format("{}{} -> at least {:g}", rules.empty() ? "" : ", ", fmt::join(places, " and "),
                         modulo(interval.end, now.period));
  }
  needed.action = fmt::format("pad only places that are dangerous mod {:g}: {}", now.period, rules);
  needed.price = fmt::format("{:.2f} {} on average, at most {:g}; today's prompt {:g}", needed.mean_units, now.unit,
                             needed.most_units, padding_out_of_danger(now.zone, modulo(current, now.period)));
  result.push_back(std::move(needed));
  result.push_back(std::move(fixed));
}

void add_random_offset(const Situation& now, std::vector<Mitigation>& result) {
  Mitigation offset;
  offset.name = "random offset";
  offset.action =
      fmt::format("draw the grid's offset per request (from the content, so that cached prefixes stay valid)");
  offset.mean_bytes = std::isnan(now.kv_bytes_per_token) ? kNotMeasured : 0;
  offset.failing_after = now.zone.share;
  offset.price = fmt::format(
      "nothing; every place then fails in {:.1f} % of requests instead of some in all, two tries in {:.2f} %",
      100 * now.zone.share, 100 * now.zone.share * now.zone.share);
  result.push_back(std::move(offset));
}

void add_overlap(const Situation& now, std::vector<Mitigation>& result) {
  const double overlap = now.widest / now.period;
  // Beyond one half a position lies in three blocks, and the price below no longer holds.
  if (overlap > 0.5) return;
  const double doubled = overlap / (1 - overlap);
  Mitigation overlapping;
  overlapping.name = "overlapping blocks";
  overlapping.action =
      fmt::format("let neighbouring blocks share {:g} of {:g} {} (the widest danger), so that no cut parts a fact",
                  now.widest, now.period, now.unit);
  overlapping.price = fmt::format(
      "stored twice: {:.1f} % more compressed cache; stored once where any block keeps it: at most {:.1f} % of the "
      "full cache",
      100 * (1 / (1 - overlap) - 1), 100 * doubled / 4);
  result.push_back(std::move(overlapping));
}

void add_anchors(const Situation& now, std::vector<Mitigation>& result) {
  Mitigation anchors;
  anchors.name = "protect the fact";
  // A block that holds a protected token is kept whole: one block, and a second with probability (width - 1) / period.
  anchors.mean_units = now.period + std::max(0.0, now.widest - 1);
  anchors.most_units = now.period * (1 + std::ceil(std::max(0.0, now.widest - 1) / now.period));
  anchors.mean_bytes = now.bytes(anchors.mean_units);
  anchors.action = "keep blocks that hold numbers, names and headings (protect: anchors)";
  anchors.price = fmt::format("{:g} {} of cache kept for each fact on average, at most {:g}, out of the same budget",
                              anchors.mean_units, now.unit, anchors.most_units);
  result.push_back(std::move(anchors));
}

void add_block_sizes(const Situation& now, std::vector<Mitigation>& result) {
  Mitigation larger;
  larger.name = "larger blocks";
  larger.action = fmt::format("blocks of {:g} {}: half as many cuts, danger as wide as now", 2 * now.period, now.unit);
  larger.failing_after = now.zone.share / 2;
  larger.price = fmt::format(
      "no bytes; {:.1f} % of places in danger if only cuts do harm; coarser choice of what is kept: scan again",
      100 * larger.failing_after);
  result.push_back(std::move(larger));
}

}  // namespace

double padding_out_of_danger(const DangerZone& zone, double residue) {
  for (const Interval& interval : zone.avoid) {
    if (interval.length() >= zone.period) return 0;
    for (const double turn : {0.0, zone.period}) {
      if (residue + turn >= interval.begin && residue + turn < interval.end)
        return std::ceil(interval.end - residue - turn - 1e-9);
    }
  }
  return 0;
}

std::vector<Mitigation> mitigations_for(const OutsideScan& scan, const ScanDiagnosis& diagnosis,
                                        const MitigationQuestion& question) {
  std::vector<Mitigation> result;
  if (!diagnosis.period.is_found() || diagnosis.danger.intervals.empty()) return result;
  Situation now{diagnosis.danger,       std::string(unit_of(scan.axis)), diagnosis.danger.period, 0,
                scan.tokens_per_unit(), question.kv_bytes_per_token};
  for (const Interval& interval : diagnosis.danger.avoid) now.widest = std::max(now.widest, interval.length());
  const double current = std::isnan(question.current) ? scan.points.front().at : question.current;
  add_padding(now, current, tokens_beside_prefix(scan), result);
  add_random_offset(now, result);
  add_overlap(now, result);
  add_anchors(now, result);
  add_block_sizes(now, result);
  return result;
}

}  // namespace kvtide::loss

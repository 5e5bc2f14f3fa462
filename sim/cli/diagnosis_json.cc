#include "cli/diagnosis_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json_object.h"
#include "base/quoted_text.h"
#include "planning/text_spread.h"

namespace kvtide::cli {
namespace {

std::string period_json(const loss::PeriodFinding& finding) {
  const loss::ScanPeriod& search = finding.search;
  return fmt::format(
      R"({{"kind": "{}", "period": {}, "best_candidate": {}, "resolution": {}, "cycles": {}, "p": {}, "surrogates": {}, )"
      R"("phase_share": {}, "agreement": {}, "ratio": {}, "searched": [{}, {}], "block_sizes": [{}], )"
      R"("further_points": {}, "further_step": {}, "smallest_dip": {}, "certainty": {}}})",
      to_string(finding.verdict), finding.is_found() ? json_number(search.period) : "null", json_number(search.period),
      json_number(search.resolution), json_number(search.cycles), json_number(search.p), search.surrogates,
      json_number(search.phase_share), json_number(search.agreement), json_number(finding.ratio),
      json_number(search.shortest_searched), json_number(search.longest_searched), fmt::join(finding.block_sizes, ", "),
      finding.further_points, json_number(finding.further_step), json_number(finding.smallest_dip),
      quoted_text(finding.certainty));
}

std::string blocks_json(const loss::BlockDependence& found) {
  std::vector<std::string> blocks;
  for (const auto& block : found.blocks) {
    blocks.push_back(fmt::format(R"({{"begin": {}, "mean_success": {}, "mean_loss": {}, "places": {}}})",
                                 json_number(block.begin), json_number(block.mean_success),
                                 json_number(block.mean_loss), block.places));
  }
  return fmt::format(
      R"({{"is_found": {}, "block_size": {}, "boundary": {}, "edge_index": {}, "p": {}, "variance_share": {}, "blocks": [{}]}})",
      found.is_found(), found.is_found() ? json_number(found.block_size) : "null", json_number(found.boundary),
      json_number(found.edge_index), json_number(found.p), json_number(found.variance_share),
      found.is_found() ? fmt::format("{}", fmt::join(blocks, ", ")) : "");
}

/// How far figures of one text carry to another, where that has been measured.
std::string carries_json() {
  const auto spread = planning::measured_text_spread();
  if (!spread) return "null";
  return fmt::format(
      R"({{"texts": {}, "mean_low": {}, "mean_high": {}, "layers": {}, "layer_low": {}, "layer_high": {}}})",
      spread->texts, json_number(spread->low), json_number(spread->high), spread->layers,
      json_number(spread->layer_low), json_number(spread->layer_high));
}

/// An array with a line an item. @param pad  in front of its brackets
template <typename Item>
std::string list(const std::vector<Item>& items, std::string (*json)(const Item&), const std::string& pad) {
  if (items.empty()) return "[]";
  std::vector<std::string> lines;
  for (const Item& item : items) lines.push_back(json(item));
  return fmt::format("[\n{0}  {1}\n{0}]", pad, fmt::join(lines, ",\n" + pad + "  "));
}

std::string interval_json(const loss::Interval& interval) {
  return fmt::format(R"({{"begin": {}, "end": {}}})", json_number(interval.begin), json_number(interval.end));
}

std::string danger_json(const loss::ScanDiagnosis& found, const std::string& pad) {
  std::vector<std::string> failing;
  for (const loss::FailingRun& run : found.failing)
    failing.push_back(fmt::format("[{}, {}]", json_number(run.first), json_number(run.last)));
  return fmt::format(R"({{"share": {}, "intervals": {}, "avoid": {}, "failing": [{}]}})",
                     json_number(found.danger.share), list(found.danger.intervals, interval_json, pad),
                     list(found.danger.avoid, interval_json, pad), fmt::join(failing, ", "));
}

std::string cost_json(const loss::ScanCost& cost) {
  return fmt::format(
      R"({{"mean_success": {}, "worst_success": {}, "mean_loss": {}, "worst_loss": {}, "worst_at": {}, "cvar05": {}, )"
      R"("failing_share": {}, "stability": {}, "worst_phase_over_mean": {}, "flips": {}}})",
      json_number(cost.mean_success), json_number(cost.worst_success), json_number(cost.mean_loss),
      json_number(cost.worst_loss), json_number(cost.worst_at), json_number(cost.cvar05),
      json_number(cost.failing_share), json_number(cost.stability), json_number(cost.worst_phase_over_mean),
      cost.flips);
}

std::string probe_json(const loss::OutsideScan::Probe& probe) {
  return fmt::format(R"({{"type": {}, "rows": {}, "mean_success": {}, "worst_success": {}}})", quoted_text(probe.type),
                     probe.rows, json_number(probe.mean_success), json_number(probe.worst_success));
}

std::string mitigation_json(const loss::Mitigation& one) {
  return fmt::format(
      R"({{"name": {}, "action": {}, "mean_units": {}, "most_units": {}, "mean_bytes": {}, "failing_after": {}, "price": {}}})",
      quoted_text(one.name), quoted_text(one.action), json_number(one.mean_units), json_number(one.most_units),
      json_number(one.mean_bytes), json_number(one.failing_after), quoted_text(one.price));
}

std::string symptom_json(const loss::Symptom& one) {
  return fmt::format(R"({{"name": {}, "symptom": {}, "cause": {}, "check": {}, "remedy": {}}})", quoted_text(one.name),
                     quoted_text(one.seen), quoted_text(one.cause), quoted_text(one.check), quoted_text(one.remedy));
}

}  // namespace

std::string diagnosis_json(const DiagnosedScan& diagnosed, int indent) {
  const std::string pad(static_cast<std::size_t>(indent) + 2, ' ');
  const loss::OutsideScan& scan = diagnosed.scan;
  const loss::ScanDiagnosis& found = diagnosed.diagnosis;
  const std::vector<std::string> lines{
      fmt::format(R"("file": {}, "axis": "{}", "unit": "{}", "measure": "{}", "loss_unit": "{}")",
                  quoted_text(scan.origin), to_string(scan.axis), unit_of(scan.axis), to_string(scan.measure),
                  unit_of(scan.measure)),
      fmt::format(
          R"("places": {}, "rows": {}, "repeats": {}, "has_baseline": {}, "rows_left_out": {}, "tokens_per_unit": {})",
          scan.points.size(), scan.rows, scan.repeats, scan.has_baseline, scan.rows_left_out,
          json_number(scan.tokens_per_unit())),
      fmt::format(R"("period": {})", period_json(found.period)),
      fmt::format(R"("block_dependence": {})", blocks_json(found.block_dependence)),
      fmt::format(R"("wave": {{"method": "{}", "period": {}, "power": {}, "p": {}, "lines": {}}})",
                  found.is_even ? "fisher_g" : "lomb_scargle", json_number(found.wave.period),
                  json_number(found.wave.power), json_number(found.wave.p), found.wave.lines),
      fmt::format(R"("failures": {{"events": {}, "rayleigh_r": {}, "rayleigh_p": {}, "h": {}, "h_p": {}}})",
                  found.failures.events, json_number(found.failures.length), json_number(found.failures.rayleigh_p),
                  json_number(found.failures.h), json_number(found.failures.h_p)),
      fmt::format(R"("danger": {})", danger_json(found, pad)),
      fmt::format(R"("cost": {})", cost_json(found.cost)),
      fmt::format(
          R"("noise": {{"trend_p": {}, "trend_first": {}, "trend_last": {}, "serial_p": {}, "dispersion_p": {}}})",
          json_number(found.noise.trend_p), json_number(found.noise.first), json_number(found.noise.last),
          json_number(found.noise.serial_p), json_number(found.noise.dispersion_p)),
      fmt::format(R"("control": {{"places": {}, "mean_success": {}, "is_valid": {}}})", found.control.places,
                  json_number(found.control.places > 0 ? found.control.mean_success : loss::kNotMeasured),
                  found.control.is_valid),
      fmt::format(R"("latency": {{"typical_ms": {}, "worst_ms": {}, "period": {}}})",
                  json_number(found.latency_typical_ms), json_number(found.latency_worst_ms),
                  period_json(found.latency)),
      fmt::format(R"("carries": {})", carries_json()),
      fmt::format(R"("probes": {})", list(scan.probes, probe_json, pad)),
      fmt::format(R"("mitigations": {})", list(diagnosed.mitigations, mitigation_json, pad)),
      fmt::format(R"("symptoms": {})", list(diagnosed.symptoms, symptom_json, pad)),
  };
  return fmt::format("{{\n{0}{1}\n{2}}}", pad, fmt::join(lines, ",\n" + pad), pad.substr(2));
}

std::string comparison_json(const loss::ScanComparison& comparison) {
  return fmt::format(
      R"({{"verdict": "{}", "common_places": {}, "mean_loss_change": {}, "worst_loss_change": {}, "worst_change_at": {}, )"
      R"("newly_failing": {}, "newly_right": {}, "stability_change": {}, "p": {}, "sign_flips": {}, "period_change": "{}"}})",
      to_string(comparison.verdict), comparison.common_places, json_number(comparison.mean_loss_change),
      json_number(comparison.worst_loss_change), json_number(comparison.worst_change_at), comparison.newly_failing,
      comparison.newly_right, json_number(comparison.stability_change), json_number(comparison.p), comparison.flips,
      to_string(comparison.period));
}

}  // namespace kvtide::cli

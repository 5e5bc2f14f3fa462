#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/units.h"
#include "base/whole_file.h"
#include "cli/command.h"
#include "cli/diagnosis_json.h"
#include "cli/open_metrics.h"
#include "cli/table.h"
#include "config/csv_table.h"
#include "model/model.h"

namespace kvtide::cli {
namespace {

std::optional<double> number_option(const Arguments& arguments, const std::string& name, double min, double max) {
  const std::optional<std::string> given = arguments.text(name);
  if (!given) return std::nullopt;
  double value = 0;
  const auto [rest, error] = std::from_chars(given->data(), given->data() + given->size(), value);
  if (error != std::errc{} || rest != given->data() + given->size() || !(value >= min && value <= max)) {
    throw InputError(fmt::format("--{}: expected a number in {:g}..{:g}, got \"{}\"", name, min, max, *given));
  }
  return value;
}

DiagnosedScan diagnosed(loss::OutsideScan scan, const Arguments& arguments) {
  DiagnosedScan result;
  result.scan = std::move(scan);
  loss::DiagnosisSettings settings;
  settings.known_block_size = number_option(arguments, "block-size", 2, 1e6).value_or(0);
  settings.seed = static_cast<std::uint64_t>(arguments.integer("seed", 0, 1'000'000'000).value_or(1));
  result.diagnosis = loss::diagnose(result.scan, settings);
  loss::MitigationQuestion question;
  question.current = number_option(arguments, "current", 0, 1e9).value_or(loss::kNotMeasured);
  if (const auto name = arguments.text("model")) {
    question.kv_bytes_per_token = static_cast<double>(load_model(*name).kv_bytes_per_token());
  }
  result.mitigations = loss::mitigations_for(result.scan, result.diagnosis, question);
  result.symptoms = loss::symptoms_of(result.scan, result.diagnosis);
  return result;
}

std::string loss_text(const loss::OutsideScan& scan, double loss) {
  if (scan.measure == loss::ScanMeasure::correct) return fmt::format("{:.1f} % of answers", 100 * loss);
  return fmt::format("{:.3g} {}", loss, unit_of(scan.measure));
}

/// A wave of a likelier chance is not told.
constexpr double kTellingWave = 0.05;

/// Narrow dips have strong harmonics: is the strongest wave one of the period found?
/// @param extent  of the scan; two frequencies less than 1 / extent apart are one
std::string harmonic_text(const loss::ScanDiagnosis& found, double extent) {
  if (!found.period.is_found()) return "";
  const double cycles = found.period.search.period / found.wave.period;
  const double order = std::round(cycles);
  if (order < 1 || std::abs(cycles - order) > found.period.search.period / extent) return "";
  return order == 1 ? ": the period" : fmt::format(": harmonic {:g} of the period", order);
}

void print_period(const DiagnosedScan& diagnosed) {
  const loss::OutsideScan& scan = diagnosed.scan;
  const loss::PeriodFinding& period = diagnosed.diagnosis.period;
  if (!period.is_found()) {
    fmt::print("period      none found\n");
    return;
  }
  fmt::print("period      {:g} {} (+- {:.2g}), {}\n", period.search.period, unit_of(scan.axis),
             period.search.resolution, to_string(period.verdict));
  if (scan.axis == loss::ScanAxis::prefix_chars) {
    const double tokens = period.search.period * scan.tokens_per_unit();
    fmt::print("            {}\n", std::isnan(tokens) ? "in tokens: unknown without a tokens column"
                                                      : fmt::format("{:.1f} tokens at {:.3f} tokens a character",
                                                                    tokens, scan.tokens_per_unit()));
  }
  if (!period.block_sizes.empty()) {
    fmt::print("block size  {} tokens most likely; a period can also be a multiple of the block size: {}\n",
               period.block_sizes.front(), fmt::join(period.block_sizes, ", "));
  }
}

void print_certainty(const DiagnosedScan& diagnosed) {
  const loss::OutsideScan& scan = diagnosed.scan;
  const loss::ScanDiagnosis& found = diagnosed.diagnosis;
  fmt::print("how surely  {}\n", found.period.certainty);
  if (found.failures.events > 0) {
    fmt::print("            {} failing places at one phase: Rayleigh p {:.1e}, H-test p {:.1e}\n",
               found.failures.events, found.failures.rayleigh_p, found.failures.h_p);
  }
  if (found.wave.period > 0 && found.wave.p <= kTellingWave) {
    fmt::print("            strongest wave {:.4g} {} ({} p {:.1e}){}\n", found.wave.period, unit_of(scan.axis),
               found.is_even ? "Fisher g, pre-whitened," : "Lomb-Scargle, Baluev", found.wave.p,
               harmonic_text(found, scan.losses().extent()));
  }
}

std::string residues_text(const std::vector<loss::Interval>& intervals, double period) {
  std::vector<std::string> residues;
  for (const loss::Interval& interval : intervals) {
    for (const loss::Interval& one : loss::within_one_turn(interval, period)) {
      residues.push_back(fmt::format("{:g} to below {:g}", std::floor(one.begin), std::ceil(one.end)));
    }
  }
  return fmt::format("{}", fmt::join(residues, ", "));
}

/// Where it fails: by phase with a period, else stretch by stretch.
void print_danger(const DiagnosedScan& diagnosed) {
  const loss::ScanDiagnosis& found = diagnosed.diagnosis;
  if (found.period.is_found()) {
    const std::string fails = residues_text(found.danger.intervals, found.danger.period);
    const std::string avoid = residues_text(found.danger.avoid, found.danger.period);
    if (fails.empty()) {
      fmt::print("danger      {}\n", found.failing.empty()
                                         ? "nowhere below one half"
                                         : "at no phase below one half on average; failing places lie at all of them");
    } else {
      fmt::print("danger      {} mod {:g} = {} ({:.1f} % of places){}\n", to_string(diagnosed.scan.axis),
                 found.danger.period, fails, 100 * found.danger.share,
                 avoid == fails ? "" : fmt::format("; perhaps {}: single failures beside, to a step beyond", avoid));
    }
    return;
  }
  if (found.failing.empty()) return;
  constexpr std::size_t kShown = 8;
  const std::size_t count = found.failing.size();
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < std::min(kShown, count); ++i) {
    runs.push_back(fmt::format("{:g} to {:g}", found.failing[i].first, found.failing[i].last));
  }
  fmt::print("fails at    {}{}\n", fmt::join(runs, ", "),
             count > kShown ? fmt::format(" and {} more stretches", count - kShown) : "");
}

void print_cost(const DiagnosedScan& diagnosed) {
  const loss::OutsideScan& scan = diagnosed.scan;
  const loss::ScanCost& cost = diagnosed.diagnosis.cost;
  fmt::print("cost        mean loss {}, worst {} (at {:g}), worst 5 % {}; {:.1f} % of places fail\n",
             loss_text(scan, cost.mean_loss), loss_text(scan, cost.worst_loss), cost.worst_at,
             loss_text(scan, cost.cvar05), 100 * cost.failing_share);
  if (std::isnan(cost.stability)) {
    fmt::print(
        "stability   not measured: single yes-or-no tries cannot tell a bad place from bad luck; repeat each place\n");
  } else {
    fmt::print("stability   {:.3f} (1: the same everywhere; 0: every place always works or always fails)\n",
               cost.stability);
  }
}

void print_finding(const DiagnosedScan& diagnosed) {
  const loss::OutsideScan& scan = diagnosed.scan;
  const loss::ScanDiagnosis& found = diagnosed.diagnosis;
  fmt::print("{}: {} places, {} {:g} to {:g}, usual step {:g}; {}, {} rows{}\n", scan.origin, scan.points.size(),
             to_string(scan.axis), scan.points.front().at, scan.points.back().at, scan.losses().step(),
             to_string(scan.measure), scan.rows, scan.has_baseline ? ", loss against the baseline" : "");
  if (scan.rows_left_out > 0)
    fmt::print("left out    {} rows without a baseline, since others have one\n", scan.rows_left_out);
  print_period(diagnosed);
  print_certainty(diagnosed);
  print_danger(diagnosed);
  print_cost(diagnosed);
  if (found.control.places > 0) {
    fmt::print("control     {:.2f} with the fact removed: {}\n", found.control.mean_success,
               found.control.is_valid ? "the answer needs the fact"
                                      : "the answer comes without the fact, so the scan proves nothing");
  }
  if (!std::isnan(found.latency_typical_ms)) {
    fmt::print("latency     median {:g} ms, worst {:g} ms; {}\n", found.latency_typical_ms, found.latency_worst_ms,
               found.latency.certainty);
  }
  for (const loss::OutsideScan::Probe& probe : scan.probes) {
    fmt::print("probe       {}: mean success {:.2f}, worst place {:.2f} ({} rows)\n", probe.type, probe.mean_success,
               probe.worst_success, probe.rows);
  }
}

void print_remedies(const DiagnosedScan& diagnosed) {
  if (!diagnosed.symptoms.empty()) fmt::print("\nWhat this shows\n");
  for (const loss::Symptom& one : diagnosed.symptoms) {
    fmt::print("- {}\n    likely cause  {}\n    next check    {}\n    remedy        {}\n", one.seen, one.cause,
               one.check, one.remedy);
  }
  if (diagnosed.mitigations.empty()) return;
  fmt::print("\nWorth trying\n");
  for (const loss::Mitigation& one : diagnosed.mitigations) {
    fmt::print("- {}: {}\n    price  {}\n", one.name, one.action, one.price);
    if (std::isfinite(one.mean_bytes))
      fmt::print("    KV     {} a sequence on average\n", format_bytes(one.mean_bytes));
  }
}

void print_comparison(const loss::ScanComparison& change, const DiagnosedScan& before, const DiagnosedScan& after) {
  const auto period = [](const DiagnosedScan& one) {
    return one.diagnosis.period.is_found() ? fmt::format("{:g}", one.diagnosis.period.search.period)
                                           : std::string("none");
  };
  const bool is_mean_same =
      change.verdict == loss::ScanChange::same || change.verdict == loss::ScanChange::period_changed;
  fmt::print("\nAfter against before: {} in the mean{}\n",
             to_string(is_mean_same ? loss::ScanChange::same : change.verdict),
             change.period == loss::PeriodChange::none ? "" : fmt::format("; period {}", to_string(change.period)));
  fmt::print("mean loss   {:+.4g} {} over {} common places (p {:.4f}, {} random sign flips)\n", change.mean_loss_change,
             unit_of(after.scan.measure), change.common_places, change.p, change.flips);
  fmt::print("worst       {:+.4g} at {:g}; {} places newly fail, {} newly answer\n", change.worst_loss_change,
             change.worst_change_at, change.newly_failing, change.newly_right);
  fmt::print("stability   {}; period {} -> {}\n",
             std::isnan(change.stability_change) ? "not measured" : fmt::format("{:+.3f}", change.stability_change),
             period(before), period(after));
  if (change.verdict == loss::ScanChange::worse && period(before) != period(after)) {
    fmt::print(
        "- worse, and the period changed\n    likely cause  another block size (or compression newly at work)\n"
        "    next check    block_size and kv_cache settings of both versions' start-up logs\n"
        "    remedy        set the old block size, or apply the remedies to the new period\n");
  }
}

void write_metrics(const std::string& path, const DiagnosedScan& diagnosed) {
  const loss::ScanDiagnosis& found = diagnosed.diagnosis;
  const bool is_found = found.period.is_found();
  const double per_unit = diagnosed.scan.tokens_per_unit();
  const std::vector<Gauge> gauges{
      {"kvtide_scan_places", "", "Places scanned.", static_cast<double>(diagnosed.scan.points.size())},
      {"kvtide_scan_mean_success", "", "Mean success over places, 0 to 1.", found.cost.mean_success},
      {"kvtide_scan_worst_success", "", "Success at the worst place, 0 to 1.", found.cost.worst_success},
      {"kvtide_scan_mean_loss", "", "Mean loss over places, in the unit of the measure.", found.cost.mean_loss},
      {"kvtide_scan_worst_loss", "", "Loss at the worst place.", found.cost.worst_loss},
      {"kvtide_scan_cvar05_loss", "", "Mean loss of the worst 5 % of places.", found.cost.cvar05},
      {"kvtide_scan_failing_ratio", "ratio", "Share of places with success below one half.", found.cost.failing_share},
      {"kvtide_scan_stability", "", "Position-stability index, 1: the same everywhere.", found.cost.stability},
      {"kvtide_scan_period_tokens", "tokens", "Period of the loss; NaN: none found.",
       is_found ? found.period.search.period * per_unit : loss::kNotMeasured},
      {"kvtide_scan_period_p", "", "Chance of such a period in noise, search included.", found.period.search.p},
      {"kvtide_scan_danger_ratio", "ratio", "Share of the period in which answers fail.", found.danger.share},
  };
  const std::string text =
      open_metrics_text(gauges, {{"scan", std::filesystem::path(diagnosed.scan.origin).stem().string()},
                                 {"axis", std::string(to_string(diagnosed.scan.axis))},
                                 {"measure", std::string(to_string(diagnosed.scan.measure))}});
  // A monitor may read at any moment: written beside, then renamed.
  write_whole_file(path, text);
}

/// Says what a gate found. @return true when one is shut
bool is_gate_shut(const Arguments& arguments, const DiagnosedScan& diagnosed) {
  const loss::ScanCost& cost = diagnosed.diagnosis.cost;
  bool is_shut = false;
  if (const auto limit = number_option(arguments, "fail-above", -1e12, 1e12); limit && cost.worst_loss > *limit) {
    fmt::print(stderr, "{}: worst loss {:.6g} at {:g} is above {:g}\n", diagnosed.scan.origin, cost.worst_loss,
               cost.worst_at, *limit);
    is_shut = true;
  }
  const auto limit = number_option(arguments, "min-stability", 0, 1);
  if (limit && std::isnan(cost.stability)) {
    throw InputError(
        fmt::format("{}: --min-stability: single yes-or-no tries have no stability; repeat each place (two rows or "
                    "more) or give scores",
                    diagnosed.scan.origin));
  }
  if (limit && cost.stability < *limit) {
    fmt::print(stderr, "{}: stability {:.6g} is below {:g}\n", diagnosed.scan.origin, cost.stability, *limit);
    is_shut = true;
  }
  return is_shut;
}

int run(const Arguments& arguments) {
  const bool compares = arguments.has("compare");
  if (arguments.positional.size() != (compares ? 2U : 1U)) {
    throw InputError(compares ? "kvtide diagnose --compare: expected BEFORE.csv and AFTER.csv"
                              : "kvtide diagnose: expected one SCAN.csv (two with --compare)");
  }
  // Settings first: a wrong one is not worth the work.
  (void)number_option(arguments, "fail-above", -1e12, 1e12);
  (void)number_option(arguments, "min-stability", 0, 1);
  std::vector<DiagnosedScan> scans;
  const config::CsvTable first = config::CsvTable::load(arguments.positional.front());
  if (compares) {
    auto [before, after] = loss::read_scans_to_compare(first, config::CsvTable::load(arguments.positional.back()));
    scans.push_back(diagnosed(std::move(before), arguments));
    scans.push_back(diagnosed(std::move(after), arguments));
  } else {
    scans.push_back(diagnosed(loss::read_outside_scan(first), arguments));
  }
  const DiagnosedScan& last = scans.back();
  std::optional<loss::ScanComparison> change;
  if (compares) {
    change = loss::compare_scans(scans[0].scan, scans[0].diagnosis, last.scan, last.diagnosis,
                                 static_cast<std::uint64_t>(arguments.integer("seed", 0, 1'000'000'000).value_or(1)));
  }
  if (arguments.has("json")) {
    if (compares) {
      fmt::print("{{\n  \"comparison\": {},\n  \"before\": {},\n  \"after\": {}\n}}\n", comparison_json(*change),
                 diagnosis_json(scans[0], 2), diagnosis_json(last, 2));
    } else {
      fmt::print("{}\n", diagnosis_json(last));
    }
  } else {
    for (const DiagnosedScan& one : scans) print_finding(one);
    if (compares) print_comparison(*change, scans[0], last);
    print_remedies(last);
  }
  if (const auto path = arguments.text("openmetrics")) write_metrics(*path, last);
  bool is_shut = is_gate_shut(arguments, last);
  if (arguments.has("fail-if-worse")) {
    if (!compares) throw InputError("--fail-if-worse: needs --compare");
    is_shut = is_shut || change->verdict == loss::ScanChange::worse;
  }
  return is_shut ? kSomeRunsFailed : kDone;
}

}  // namespace

Command diagnose_command() {
  return {.name = "diagnose",
          .positional = "SCAN.csv",
          .min_positional = 1,
          .max_positional = 2,
          .summary = "period, danger and remedies in your own scan of a live system",
          .options = {{"compare", "", "judge an upgrade: BEFORE.csv and AFTER.csv"},
                      {"block-size", "B", "tokens (or characters): ask for this period only"},
                      {"current", "X", "today's place on the axis, for padding; default: the first one scanned"},
                      {"model", "NAME", "prices remedies in bytes of this model's KV cache"},
                      {"fail-above", "X", "exit 1 when the worst loss is above X (share, score or nats)"},
                      {"min-stability", "X",
                       "exit 1 when the position-stability index is below X (0 to 1); needs repeats or scores"},
                      {"fail-if-worse", "", "with --compare: exit 1 when after is worse"},
                      {"openmetrics", "FILE", "writes the figures for a monitor"},
                      {"seed", "N", "of surrogates and permutations; default 1"},
                      {"json", "", "one JSON document"}},
          .examples = {"kvtide diagnose scan.csv --model llama-3.1-8b",
                       "kvtide diagnose --compare before.csv after.csv --fail-if-worse",
                       "kvtide diagnose nightly.csv --min-stability 0.9 --openmetrics kv.prom"},
          .run = &run};
}

}  // namespace kvtide::cli

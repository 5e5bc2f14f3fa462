#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/json_object.h"
#include "base/quoted_text.h"
#include "cli/command.h"
#include "cli/fidelity_option.h"
#include "cli/python_program.h"
#include "cli/table.h"
#include "cli/validate_e2e.h"
#include "cli/validate_kept.h"
#include "cli/validate_scan.h"
#include "cli/validate_serving.h"
#include "cli/validation_file.h"
#include "gpu/validation/dram_reference.h"
#include "gpu/validation/measured_report.h"
#include "gpu/validation/measured_targets.h"
#include "gpu/validation/sparse_rows.h"

namespace kvtide::cli {
namespace {

std::string percent(double value) {
  return std::isfinite(value) ? fmt::format("{:.1f}", value) : "-";
}

std::string statistics_json(const gpu::ErrorStatistics& errors) {
  return fmt::format(
      R"("rows": {}, "ape_mean": {}, "ape_median": {}, "ape_p90": {}, "signed_median": {}, "absolute_median_us": {}, "refused": {})",
      errors.rows, json_number(errors.ape_mean), json_number(errors.ape_median), json_number(errors.ape_p90),
      json_number(errors.signed_median), json_number(errors.absolute_median_us), errors.refused);
}

void add_row(Table& table, const gpu::ErrorGroup& group) {
  const gpu::ErrorStatistics& errors = group.errors;
  table.add_row({group.gpu, group.framework, group.operation, group.size_class, fmt::format("{}", errors.rows),
                 fmt::format("{}", errors.refused), percent(errors.ape_mean), percent(errors.ape_median),
                 percent(errors.ape_p90), percent(errors.signed_median),
                 std::isfinite(errors.absolute_median_us) ? fmt::format("{:.2f}", errors.absolute_median_us) : "-"});
}

/// Target beside figure, misses first.
std::string targets_text(const std::vector<gpu::TargetResult>& results) {
  Table table({{"target", Align::left},
               {"of", Align::left},
               {"at most %", Align::right},
               {"found %", Align::right},
               {"rows", Align::right},
               {"", Align::left},
               {"worst group", Align::left}});
  for (const gpu::TargetResult& result : results) {
    table.add_row({result.subject, result.statistic, percent(result.target), percent(result.found),
                   fmt::format("{}", result.rows),
                   result.is_met() ? "met" : fmt::format("MISSED by {:.1f}", result.found - result.target),
                   result.worst});
  }
  return table.text();
}

std::string targets_json(const std::vector<gpu::TargetResult>& results) {
  std::vector<std::string> objects;
  for (const gpu::TargetResult& result : results) {
    objects.push_back(fmt::format(
        R"({{"subject": {}, "statistic": {}, "target": {}, "found": {}, "rows": {}, "met": {}, "worst": {}}})",
        quoted_text(result.subject), quoted_text(result.statistic), json_number(result.target),
        json_number(result.found), result.rows, result.is_met(), quoted_text(result.worst)));
  }
  return fmt::format("{}", fmt::join(objects, ",\n  "));
}

std::string tokens_text(double tokens) {
  return std::isfinite(tokens) ? fmt::format("{:.0f}", tokens) : "none";
}

/// From which context sparse attention wins, and how many measured rows contradict it by more than a factor of 2.
std::string crossovers_text(const std::vector<gpu::CrossoverGroup>& groups) {
  std::vector<Table::Column> columns{{"sparse beats dense", Align::left},
                                     {"framework", Align::left},
                                     {"rows", Align::right},
                                     {"beyond 2x", Align::right},
                                     {"wrong side", Align::right}};
  for (const std::int64_t batch : gpu::crossover_batches()) {
    columns.push_back({fmt::format("from, batch {}", batch), Align::right});
  }
  Table table(columns);
  for (const gpu::CrossoverGroup& group : groups) {
    std::vector<std::string> cells{group.gpu, group.framework, fmt::format("{}", group.rows),
                                   fmt::format("{}", group.decided), fmt::format("{}", group.wrong)};
    for (const double tokens : group.crossovers) cells.push_back(tokens_text(tokens));
    table.add_row(cells);
  }
  return table.text();
}

std::string crossovers_json(const std::vector<gpu::CrossoverGroup>& groups) {
  std::vector<std::string> objects;
  for (const gpu::CrossoverGroup& group : groups) {
    std::vector<std::string> tokens;
    for (const double each : group.crossovers) tokens.push_back(json_number(each));
    objects.push_back(fmt::format(
        R"({{"gpu": {}, "framework": {}, "rows": {}, "decided": {}, "wrong": {}, "batch": [{}], "tokens": [{}]}})",
        quoted_text(group.gpu), quoted_text(group.framework), group.rows, group.decided, group.wrong,
        fmt::join(gpu::crossover_batches(), ", "), fmt::join(tokens, ", ")));
  }
  return fmt::format("{}", fmt::join(objects, ",\n  "));
}

int validate_measured(const Arguments& arguments) {
  const std::vector<std::string> paths(arguments.positional.begin() + 1, arguments.positional.end());
  const gpu::MeasuredReport report =
      gpu::validate_measured(paths, fidelity_option(arguments, gpu::Fidelity::roofline),
                             arguments.text("rows").value_or(""), arguments.text("leave-out").value_or(""));
  if (const auto path = arguments.text("output")) write_validation(*path, report);
  const bool is_left_out = arguments.text("leave-out").has_value();
  const std::vector<gpu::TargetResult> targets = gpu::judge_targets(report, is_left_out);
  std::vector<gpu::CrossoverGroup> crossovers;
  if (!is_left_out) crossovers = gpu::check_crossovers(gpu::measured_files(paths), gpu::Fidelity::roofline);
  if (arguments.has("json")) {
    std::vector<std::string> groups;
    for (const gpu::ErrorGroup& group : report.groups) {
      groups.push_back(fmt::format(R"({{"gpu": {}, "operation": {}, "framework": {}, "size_class": {}, {}}})",
                                   quoted_text(group.gpu), quoted_text(group.operation), quoted_text(group.framework),
                                   quoted_text(group.size_class), statistics_json(group.errors)));
    }
    fmt::print("{{\"groups\": [\n  {}\n], \"targets\": [\n  {}\n], \"crossovers\": [\n  {}\n], \"overall\": {{{}}}}}\n",
               fmt::join(groups, ",\n  "), targets_json(targets), crossovers_json(crossovers),
               statistics_json(report.overall));
    return kDone;
  }
  Table table({{"GPU", Align::left},
               {"framework", Align::left},
               {"operation", Align::left},
               {"size", Align::left},
               {"rows", Align::right},
               {"refused", Align::right},
               {"APE mean %", Align::right},
               {"median %", Align::right},
               {"p90 %", Align::right},
               {"signed %", Align::right},
               {"median us", Align::right}});
  for (const gpu::ErrorGroup& group : report.groups) add_row(table, group);
  if (arguments.has("octaves")) {
    for (const gpu::ErrorGroup& group : report.octaves) add_row(table, group);
  }
  add_row(table, {"all", "", "", "all", report.overall});
  if (!targets.empty()) fmt::print("{}\n", targets_text(targets));
  if (!crossovers.empty()) fmt::print("{}\n", crossovers_text(crossovers));
  fmt::print("{}", table.text());
  return kDone;
}

int validate_dram(const Arguments& arguments) {
  if (arguments.positional.size() != 2) throw InputError("kvtide validate dram: expected one FILE.csv");
  std::vector<gpu::DramRow> rows = gpu::load_dram_rows(arguments.positional[1]);
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  gpu::run_dram_rows(rows, arguments.integer("jobs", 1, 4096).value_or(cores));
  if (const auto path = arguments.text("output")) write_validation(*path, rows);
  std::vector<std::string> objects;
  Table table({{"simulator", Align::left},
               {"standard", Align::left},
               {"mapping", Align::left},
               {"pattern", Align::left},
               {"variant", Align::left},
               {"block B", Align::right},
               {"of peak", Align::right},
               {"predicted", Align::right},
               {"row hits", Align::right},
               {"predicted", Align::right},
               {"latency ns", Align::right},
               {"predicted", Align::right}});
  for (const gpu::DramRow& row : rows) {
    const auto predicted = [&](double value) { return row.run ? value : NAN; };
    const auto cell = [&](double value, int digits) {
      return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : std::string("-");
    };
    const double fraction = predicted(row.outcome.peak_fraction);
    const double row_hits = predicted(row.outcome.row_hit_rate);
    const double latency = predicted(row.outcome.read_latency_ns);
    table.add_row({row.simulator, row.standard, row.mapping, row.pattern, row.variant,
                   fmt::format("{}", row.block_bytes), cell(row.peak_fraction, 4), cell(fraction, 4),
                   cell(row.row_hit_rate, 4), cell(row_hits, 4), cell(row.mean_latency_ns, 1), cell(latency, 1)});
    objects.push_back(fmt::format(
        R"({{"simulator": {}, "standard": {}, "mapping": {}, "pattern": {}, "block_bytes": {}, "variant": {}, )"
        R"("achieved_fraction": {}, "predicted_fraction": {}, "row_hit_rate": {}, "predicted_row_hit_rate": {}, )"
        R"("mean_latency_ns": {}, "predicted_mean_latency_ns": {}, "requests_per_s": {}}})",
        quoted_text(row.simulator), quoted_text(row.standard), quoted_text(row.mapping), quoted_text(row.pattern),
        row.block_bytes, quoted_text(row.variant), row.peak_fraction, json_number(fraction), row.row_hit_rate,
        json_number(row_hits), row.mean_latency_ns, json_number(latency),
        json_number(predicted(row.requests_per_second))));
  }
  if (arguments.has("json")) {
    fmt::print("{{\"rows\": [\n  {}\n]}}\n", fmt::join(objects, ",\n  "));
  } else {
    fmt::print("{}", table.text());
  }
  return kDone;
}

/// Every part beside what it was checked against: the table of docs/how-far-to-trust.md. The checks are those of this
/// very program; the Python package runs them and counts.
int validate_all(const Arguments& arguments) {
  if (arguments.positional.size() != 2) throw InputError("kvtide validate all: expected one folder of reference data");
  std::error_code failure;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", failure).string();
  std::vector<std::string> words{"trust", arguments.positional[1], "--program", failure ? "kvtide" : program};
  for (const char* name : {"page", "captures"}) {
    if (const auto value = arguments.text(name)) words.insert(words.end(), {fmt::format("--{}", name), *value});
  }
  if (arguments.has("json")) words.emplace_back("--json");
  return run_analysis(words);
}

int run(const Arguments& arguments) {
  const std::string& what = arguments.positional[0];
  if (what == "all") return validate_all(arguments);
  if (what == "measured") return validate_measured(arguments);
  if (what == "dram") return validate_dram(arguments);
  if (what == "e2e") return validate_e2e(arguments);
  if (what == "kept") return validate_kept(arguments);
  if (what == "scan") return validate_scan(arguments);
  if (what == "serving") return validate_serving(arguments);
  throw InputError(
      fmt::format("kvtide validate: expected measured, dram, e2e, kept, scan, serving or all, got \"{}\"", what));
}

}  // namespace

Command validate_command() {
  return {.name = "validate",
          .positional = "measured|dram|e2e|kept|scan|serving|all FILE...",
          .min_positional = 2,
          .max_positional = 4096,
          .summary = "the model against outside measurements",
          .options = {{"output,o", "FILE.h5", "the same as netCDF-4, and a picture of it beside: FILE.png"},
                      {"leave-out", "GPU",
                       "measured: this GPU (or each) without its rows: kernels and links of the nearest architecture, "
                       "fitted again where a sibling shared them; all operations but compressed_decode"},
                      {"rows", "OUT.csv",
                       "measured, scan: every input row with its prediction; kept: every choice of ours, by KV head"},
                      {"octaves", "", "measured: errors by octave of bytes too"},
                      {"fidelity", "TIER", "measured: roofline (default), sampled or detailed memory"},
                      {"jobs", "N", "dram: threads (default: all cores)"},
                      {"limit", "N", "scan: only N prompts, spread evenly"},
                      {"captures", "FOLDER", "scan, all: recordings made before, instead of running the model"},
                      {"page", "FILE.md", "all: put the table between the two markers of this page, too"},
                      {"step-times", "WHICH", "e2e: machine, tables or both (default)"},
                      {"interconnect", "NAME",
                       "e2e: between tensor-parallel GPUs (default: the GPU's own; over PCIe pcie-staged)"},
                      {"json", "", "one JSON document on stdout"}},
          .examples = {"kvtide validate measured measured/h100_sxm_decode_attn.csv --rows rows.csv",
                       "kvtide validate dram dram-reference.csv --json",
                       "kvtide validate kept trace-2k.h5 trace-2k-more.h5 kvpress-reference-2k.h5",
                       "kvtide validate scan real-scan-prompts.h5 real-prefix-scan.csv --limit 12",
                       "kvtide validate measured measured/ --leave-out each",
                       "kvtide validate e2e e2e/ --step-times machine",
                       "kvtide validate dram dram-reference.csv -o dram.h5",
                       "kvtide validate all data/ --page docs/how-far-to-trust.md"},
          .run = &run};
}

}  // namespace kvtide::cli

#include "experiment/dry_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/quoted_text.h"
#include "base/units.h"

namespace kvtide::experiment {
namespace {

std::string duration_text(double seconds) {
  if (seconds < 1) return fmt::format("{:.1f} s", seconds);
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

struct Total {
  double seconds = 0;     ///< of one core, all runs
  double peak_bytes = 0;  ///< of `jobs` largest runs at once
};

Total total_of(std::vector<RunCost> costs, std::int64_t jobs) {
  Total total;
  for (const RunCost& cost : costs) total.seconds += cost.seconds;
  std::ranges::sort(costs, std::greater<>(), &RunCost::bytes);
  const auto at_once = std::min<std::size_t>(costs.size(), static_cast<std::size_t>(std::max<std::int64_t>(jobs, 1)));
  for (std::size_t i = 0; i < at_once; ++i) total.peak_bytes += costs[i].bytes;
  return total;
}

std::string human_text(const Experiment& experiment, const DryRunOptions& options, const std::vector<RunCost>& costs) {
  std::string text =
      fmt::format("{}: {} run{}\n", experiment.name, experiment.runs.size(), experiment.runs.size() == 1 ? "" : "s");
  std::vector<std::string> names;
  for (const Axis& axis : experiment.axes) names.push_back(axis.column);
  if (!names.empty()) text += fmt::format("  run    {}\n", fmt::join(names, "  "));
  const auto shown = std::min<std::size_t>(experiment.runs.size(), static_cast<std::size_t>(options.max_rows));
  for (std::size_t row = 0; row < shown && !names.empty(); ++row) {
    const Run& run = experiment.runs[row];
    std::vector<std::string> cells;
    for (std::size_t axis = 0; axis < experiment.axes.size(); ++axis) {
      const std::string& label = experiment.axes[axis].labels[static_cast<std::size_t>(run.axis_values[axis])];
      cells.push_back(fmt::format("{:<{}}", label, names[axis].size()));
    }
    text += fmt::format("  {}  {}\n", run_name(run.index), fmt::join(cells, "  "));
  }
  if (shown < experiment.runs.size()) text += fmt::format("  ... and {} more\n", experiment.runs.size() - shown);
  const Total total = total_of(costs, options.jobs);
  text += fmt::format("estimate: {} with {} job{}, {} of memory at once\n",
                      duration_text(total.seconds / static_cast<double>(std::max<std::int64_t>(options.jobs, 1))),
                      options.jobs, options.jobs == 1 ? "" : "s", format_bytes(total.peak_bytes));
  for (const std::string& warning : experiment.warnings) text += fmt::format("warning: {}\n", warning);
  return text;
}

std::string json_document(const Experiment& experiment, const DryRunOptions& options,
                          const std::vector<RunCost>& costs) {
  std::vector<std::string> runs;
  for (std::size_t row = 0; row < experiment.runs.size(); ++row) {
    const Run& run = experiment.runs[row];
    std::vector<std::string> axes;
    for (std::size_t axis = 0; axis < experiment.axes.size(); ++axis) {
      const std::string& label = experiment.axes[axis].labels[static_cast<std::size_t>(run.axis_values[axis])];
      axes.push_back(fmt::format("{}: {}", quoted_text(experiment.axes[axis].column),
                                 experiment.axes[axis].type == AxisType::text ? quoted_text(label) : label));
    }
    runs.push_back(fmt::format(
        R"({{"run": {}, "key": "{:016x}", "axes": {{{}}}, "compression": {}, "seconds": {:.3g}, "bytes": {:.0f}}})",
        run.index, run.key, fmt::join(axes, ", "), quoted_text(compression_text(run.setting)), costs[row].seconds,
        costs[row].bytes));
  }
  std::vector<std::string> warnings;
  for (const std::string& warning : experiment.warnings) warnings.push_back(quoted_text(warning));
  const Total total = total_of(costs, options.jobs);
  return fmt::format(
             R"({{"name": {}, "jobs": {}, "seconds": {:.3g}, "bytes": {:.0f}, "warnings": [{}], "runs": [{}]}})",
             quoted_text(experiment.name), options.jobs,
             total.seconds / static_cast<double>(std::max<std::int64_t>(options.jobs, 1)), total.peak_bytes,
             fmt::join(warnings, ", "), fmt::join(runs, ",\n")) +
         "\n";
}

}  // namespace

RunCost estimate_cost(const Run& run) {
  const Setting& setting = run.setting;
  // A recorded token costs about 4 KB in a trace of two to four layers (SmolLM2-135M: 9.9 MB for 2,048 tokens).
  constexpr double kFileBytesPerToken = 4000;
  double tokens = 2048;
  double file_bytes = 0;
  if (setting.trace.kind == TraceKind::recorded) {
    std::error_code failure;
    const auto size = std::filesystem::file_size(setting.trace.path, failure);
    if (!failure) file_bytes = static_cast<double>(size);
    tokens = std::max(16.0, file_bytes / kFileBytesPerToken);
  } else {
    for (const auto& [name, value] : setting.trace.parameters) {
      if (name == "tokens") tokens = value;
    }
    file_bytes = tokens * kFileBytesPerToken;
  }
  // Twelve layer-heads of 64 channels, about 30 measured queries of three query heads, 1e9 multiply-adds a second.
  const double once = 12.0 * 64 * 3 * 30 * tokens / 1e9 + 12.0 * 64 * tokens * 10 / 1e9;
  const double shifts = setting.measure.prefix_scan ? 2.0 * static_cast<double>(setting.compression.block_size) : 0;
  const double blocks =
      static_cast<double>(setting.context_tokens) / static_cast<double>(setting.compression.block_size);
  RunCost cost;
  cost.seconds = once * (1 + shifts) + 0.05 + blocks * 2e-5;
  cost.bytes = 32e6 + 6 * file_bytes + static_cast<double>(setting.context_tokens) * 8;
  return cost;
}

std::string dry_run_text(const Experiment& experiment, const DryRunOptions& options,
                         const std::function<RunCost(const Run&)>& cost) {
  std::vector<RunCost> costs;
  costs.reserve(experiment.runs.size());
  for (const Run& run : experiment.runs) costs.push_back(cost(run));
  return options.as_json ? json_document(experiment, options, costs) : human_text(experiment, options, costs);
}

}  // namespace kvtide::experiment

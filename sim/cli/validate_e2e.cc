#include "cli/validate_e2e.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/json_object.h"
#include "base/quoted_text.h"
#include "cli/table.h"
#include "serving/replay.h"

namespace kvtide::cli {

namespace {

using serving::StepTimes;

std::vector<StepTimes> wanted_step_times(const Arguments& arguments) {
  const std::string wanted = arguments.text("step-times").value_or("both");
  if (wanted == "machine") return {StepTimes::machine};
  if (wanted == "tables") return {StepTimes::tables};
  if (wanted == "both") return {StepTimes::machine, StepTimes::tables};
  throw InputError(fmt::format("--step-times: expected machine, tables or both, got \"{}\"", wanted));
}

Table figure_table(const std::vector<serving::ReplayedRun>& runs) {
  Table table({{"run", Align::left},
               {"metric", Align::left},
               {"statistic", Align::left},
               {"measured", Align::right},
               {"predicted", Align::right},
               {"error %", Align::right}});
  for (const serving::ReplayedRun& run : runs) {
    for (const serving::ReplayFigure& figure : run.figures) {
      table.add_row({figure.run, figure.metric, figure.statistic, fmt::format("{:.1f}", figure.measured),
                     fmt::format("{:.1f}", figure.predicted), fmt::format("{:+.2f}", figure.error_percent())});
    }
  }
  return table;
}

void print_counters(const std::vector<serving::ReplayedRun>& runs) {
  for (const serving::ReplayedRun& run : runs) {
    const serving::SchedulerCounters& counters = run.outcome.counters;
    fmt::print(
        "{}: {} steps, {} preemptions, {} of {} full prompt blocks from the prefix cache, makespan {:.1f} s (measured "
        "{:.1f})\n",
        run.run, counters.steps, counters.preemptions, counters.hit_blocks, counters.prompt_blocks,
        to_seconds(run.outcome.makespan), run.measured_makespan);
  }
}

}  // namespace

int validate_e2e(const Arguments& arguments) {
  if (arguments.positional.size() != 2) throw InputError("kvtide validate e2e: expected one folder of measured runs");
  std::vector<std::string> objects;
  for (const StepTimes step_times : wanted_step_times(arguments)) {
    const std::vector<serving::ReplayedRun> runs =
        serving::replay(arguments.positional[1],
                        {.step_times = step_times, .interconnect = arguments.text("interconnect").value_or("")});
    for (const serving::ReplayedRun& run : runs) {
      for (const serving::ReplayFigure& figure : run.figures) {
        objects.push_back(fmt::format(
            R"({{"run": {}, "metric": "{}", "statistic": "{}", "measured": {}, "predicted": {}, "error_percent": {}, )"
            R"("step_times": "{}"}})",
            quoted_text(figure.run), figure.metric, figure.statistic, json_number(figure.measured),
            json_number(figure.predicted), json_number(figure.error_percent()), to_string(step_times)));
      }
    }
    if (arguments.has("json")) continue;
    if (step_times == StepTimes::machine) {
      fmt::print(
          "Step times of the modeled GPUs; a prediction reads no measured time. The model's form was chosen knowing "
          "the "
          "two runs of data/e2e, staging through the host of GPUs that PCIe joins among it (--interconnect: "
          "otherwise).\n\n");
    } else {
      fmt::print("\nStep times of the runs' own profile tables; what is checked are the scheduling rules.\n\n");
    }
    fmt::print("{}\n", figure_table(runs).text());
    print_counters(runs);
  }
  if (arguments.has("json")) fmt::print("{{\"runs\": [\n  {}\n]}}\n", fmt::join(objects, ",\n  "));
  return kDone;
}

}  // namespace kvtide::cli

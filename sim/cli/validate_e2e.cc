#include "cli/validate_e2e.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/quoted_text.h"
#include "cli/table.h"
#include "serving/replay.h"

namespace kvtide::cli {

int validate_e2e(const Arguments& arguments) {
  if (arguments.positional.size() != 2) throw InputError("kvtide validate e2e: expected one folder of measured runs");
  const std::vector<serving::ReplayedRun> runs = serving::replay_with_tables(arguments.positional[1]);
  std::vector<std::string> objects;
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
      objects.push_back(fmt::format(
          R"({{"run": {}, "metric": "{}", "statistic": "{}", "measured": {}, "predicted": {}, "error_percent": {}, )"
          R"("step_times": "tables"}})",
          quoted_text(figure.run), figure.metric, figure.statistic, figure.measured, figure.predicted,
          figure.error_percent()));
    }
  }
  if (arguments.has("json")) {
    fmt::print("{{\"runs\": [\n  {}\n]}}\n", fmt::join(objects, ",\n  "));
    return kDone;
  }
  fmt::print("{}\n", table.text());
  for (const serving::ReplayedRun& run : runs) {
    const serving::SchedulerCounters& counters = run.outcome.counters;
    fmt::print(
        "{}: {} steps, {} preemptions, {} of {} full prompt blocks from the prefix cache, makespan {:.1f} s (measured "
        "{:.1f})\n",
        run.run, counters.steps, counters.preemptions, counters.hit_blocks, counters.prompt_blocks,
        to_seconds(run.outcome.makespan), run.measured_makespan);
  }
  fmt::print("Step times are those of the runs' own profile tables; what is checked are the scheduling rules.\n");
  return kDone;
}

}  // namespace kvtide::cli

#include <fmt/format.h>

#include <filesystem>

#include "cli/command.h"
#include "cli/python_program.h"

namespace kvtide::cli {
namespace {

int run(const Arguments& arguments) {
  const std::filesystem::path results = arguments.positional[0];
  const std::string page =
      arguments.text("output").value_or(std::filesystem::path(results).replace_extension(".html").string());
  std::vector<std::string> words{"report", results.string(), "-o", page};
  if (const auto bound = arguments.text("worst-max")) {
    words.emplace_back("--worst-max");
    words.push_back(*bound);
  }
  if (arguments.has("json")) words.emplace_back("--json");
  return run_analysis(words);
}

int run_plot(const Arguments& arguments) {
  std::vector<std::string> words{"plot", arguments.positional[0]};
  for (const char* name : {"what", "output", "run"}) {
    for (const std::string& value : arguments.all(name)) {
      words.push_back(fmt::format("--{}", name));
      words.push_back(value);
    }
  }
  if (arguments.has("json")) words.emplace_back("--json");
  return run_analysis(words);
}

}  // namespace

Command report_command() {
  return {.name = "report",
          .positional = "RESULTS.h5",
          .min_positional = 1,
          .max_positional = 1,
          .summary = "one self-contained HTML page: verdict, table, interactive plots, provenance",
          .options = {{"output,o", "FILE.html", "where to write (default: RESULTS.html beside the results)"},
                      {"worst-max", "LOSS",
                       "largest worst-span loss that the headline accepts, in the metric's unit (default: 0.2 of the "
                       "attention; none for other metrics)"},
                      {"json", "", "the page's name and size as JSON on stdout"}},
          .examples = {"kvtide report results/demo.h5", "kvtide report results/demo.h5 -o /tmp/demo.html"},
          .run = &run};
}

Command plot_command() {
  return {
      .name = "plot",
      .positional = "RESULTS.h5",
      .min_positional = 1,
      .max_positional = 1,
      .summary = "one picture of a results file, for papers",
      .options =
          {{"what", "WHAT",
            "pareto, catalogue, remedies, position, phase, spectrum, steps, timeline, memory, prefix, heads, serving, "
            "plan (a file of kvtide plan), or kernels (a file of kvtide run --timeline)"},
           {"output,o", "FILE", "picture to write, .png, .svg or .pdf"},
           {"run", "N", "run to draw, by its number (default: the one with the worst loss)"},
           {"json", "", "the picture's name and size as JSON on stdout"}},
      .examples = {"kvtide plot results/demo.h5 --what pareto -o pareto.png",
                   "kvtide plot results/demo.h5 --what phase --run 4 -o phase.svg"},
      .run = &run_plot};
}

}  // namespace kvtide::cli

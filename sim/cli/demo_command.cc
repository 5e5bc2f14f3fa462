#include <filesystem>
#include <system_error>

#include "base/data_directory.h"
#include "cli/command.h"
#include "cli/python_program.h"

namespace kvtide::cli {
namespace {

int run(const Arguments& arguments) {
  Arguments of_run = arguments;
  of_run.positional = {data_directory() + "/experiments/demo.yaml"};
  const std::string results = arguments.text("output").value_or("results/demo.h5");
  of_run.values["output"] = {results};
  if (const auto folder = std::filesystem::path(results).parent_path(); !folder.empty() && !arguments.has("dry-run")) {
    std::error_code ignored;  // the run reports what cannot be written
    std::filesystem::create_directories(folder, ignored);
  }
  const int code = run_command().run(of_run);
  if (code != kDone || arguments.has("dry-run")) return code;
  std::vector<std::string> words{"report", results, "-o",
                                 std::filesystem::path(results).replace_extension(".html").string()};
  if (arguments.has("json")) words.emplace_back("--quiet");  // stdout holds the one document of the run
  return run_analysis(words);
}

}  // namespace

/// `kvtide run` and `kvtide report` on the demo that is installed with the program, so that it needs no source tree.
Command demo_command() {
  Command command = run_command();
  command.name = "demo";
  command.positional = "";
  command.min_positional = 0;
  command.max_positional = 0;
  command.summary = "the main job on a real recorded trace: table, results and the report as one HTML page";
  for (Option& option : command.options) {
    if (option.name == "output,o") option.help = "results, the page beside them (default: results/demo.h5)";
  }
  command.examples = {"kvtide demo", "kvtide demo -o /tmp/demo.h5 --jobs 2"};
  command.run = &run;
  return command;
}

}  // namespace kvtide::cli

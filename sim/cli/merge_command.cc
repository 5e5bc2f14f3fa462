#include <fmt/format.h>

#include "base/json_object.h"
#include "cli/command.h"
#include "experiment/merge.h"
#include "hdf5/replaceable_output.h"

namespace kvtide::cli {
namespace {

int run(const Arguments& arguments) {
  const std::vector<std::string> shards(arguments.positional.begin() + 1, arguments.positional.end());
  hdf5::require_replaceable(arguments.positional[0], {});
  const std::size_t num_runs = experiment::merge_results(arguments.positional[0], shards);
  const std::string& merged = arguments.positional[0];
  if (arguments.has("json")) {
    fmt::print("{}\n",
               JsonObject().text("file", merged).number("runs", num_runs).number("shards", shards.size()).str());
  } else {
    fmt::print("{} runs of {} files: {}\n", num_runs, shards.size(), merged);
  }
  return kDone;
}

}  // namespace

Command merge_command() {
  return {.name = "merge",
          .positional = "OUT.h5 SHARD.h5...",
          .min_positional = 2,
          .max_positional = 100001,
          .summary = "joins the shards of one experiment into the file one process would have written",
          .options = {{"json", "", "one JSON document on stdout"}},
          .examples = {"kvtide merge results/demo.h5 results/demo.shard-*.h5", "kvtide merge all.h5 part0.h5 part1.h5"},
          .run = &run};
}

}  // namespace kvtide::cli

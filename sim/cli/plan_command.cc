#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <thread>

#include "base/error.h"
#include "cli/command.h"
#include "cli/plan_text.h"
#include "cli/progress_line.h"
#include "cli/set_option.h"
#include "cli/version.h"
#include "hdf5/replaceable_output.h"
#include "planning/candidate_journal.h"
#include "planning/engine_flags.h"
#include "planning/plan_file.h"
#include "planning/plan_search.h"
#include "planning/sensitivity.h"

namespace kvtide::cli {
namespace {

constexpr std::size_t kRows = 16;

int run(const Arguments& arguments) {
  const std::optional<std::string> stack = arguments.text("emit");
  if (stack && *stack != "vllm" && *stack != "sglang" && *stack != "trtllm") {
    throw InputError(fmt::format("--emit: expected vllm, sglang or trtllm, got \"{}\"", *stack));
  }
  const planning::Plan plan = planning::load_plan(arguments.positional[0], set_option(arguments));
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  planning::PlanOutcome outcome;
  std::vector<planning::Variation> variations;
  {
    ProgressLine line(arguments.has("quiet"));
    planning::SearchOptions options;
    options.jobs = arguments.integer("jobs", 1, 4096).value_or(cores);
    options.on_progress = [&](std::int64_t done, std::int64_t total) {
      experiment::Progress progress;
      progress.done = done;
      progress.total = total;
      line.show(progress);
    };
    const auto output = arguments.text("output");
    std::optional<planning::CandidateJournal> journal;
    if (output) {
      std::error_code failure;
      if (std::filesystem::exists(*output, failure) && !std::filesystem::is_regular_file(*output, failure)) {
        throw EnvironmentError(fmt::format("{}: is no regular file; expected the name of a file", *output));
      }
      hdf5::require_replaceable(*output, {});
      options.build = build_name();
      journal.emplace(*output + ".candidates", arguments.has("resume"));
      options.restore = [&](std::uint64_t key, planning::Candidate& one) { return journal->restore(key, one); };
      options.on_judged = [&](std::uint64_t key, const planning::Candidate& one) { journal->add(key, one); };
    } else if (arguments.has("resume")) {
      throw InputError("--resume: needs -o FILE.h5, whose candidates it goes on with");
    }
    outcome = planning::search(plan, options);
    if (!arguments.has("no-sensitivity") && !stack) {
      options.on_progress = {};
      variations = planning::vary_assumptions(plan, outcome, options);
    }
  }
  const std::string verdict = plan_verdict(plan, outcome);
  if (const auto output = arguments.text("output")) {
    planning::write_plan(*output, plan, outcome, variations, verdict);
    std::error_code ignored;  // the plan is written; its journal may stay
    std::filesystem::remove(*output + ".candidates", ignored);
  }
  if (stack) {
    fmt::print("{}", emitted_setting(*stack, plan, outcome));
  } else if (arguments.has("json")) {
    fmt::print("{}", plan_json(plan, outcome, variations));
  } else {
    const std::size_t rows = arguments.has("all") ? outcome.candidates.size() : kRows;
    const std::string flips = sensitivity_text(plan, outcome, variations);
    fmt::print("{}\n{}\n{}{}{}", verdict, plan_table(plan, outcome, rows), flips, flips.empty() ? "" : "\n",
               plan_basis(plan, outcome));
  }
  return outcome.best < 0 ? kSomeRunsFailed : kDone;
}

}  // namespace

Command plan_command() {
  return {
      .name = "plan",
      .positional = "PLAN.yaml",
      .min_positional = 1,
      .max_positional = 1,
      .summary = "capacity planning: which setting meets the SLOs and the loss bound at least cost",
      .options =
          {{"set", "KEY=VALUE", "replaces a value of the file; may be repeated"},
           {"output,o", "FILE.h5", "every candidate as HDF5, for kvtide plot --what plan"},
           {"resume", "", "goes on with the candidates that an interrupted call with the same -o had judged"},
           {"emit", "STACK",
            "vllm, sglang or trtllm: the flags, the prefix padding and the probe set of the choice, as a shell script"},
           {"no-sensitivity", "", "do not vary the assumptions by 20 %"},
           {"jobs", "N", "worker threads, 1..4096 (default: all cores)"},
           {"all", "", "every candidate in the tables, not the first 16 of each"},
           {"quiet", "", "no progress on stderr"},
           {"json", "", "one JSON document on stdout"}},
      .examples = {"kvtide plan experiments/planning/chat-h100.yaml",
                   "kvtide plan experiments/planning/chat-h100.yaml --set plan.rate=\"40 /s\" --json"},
      .run = &run};
}

}  // namespace kvtide::cli

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/error.h"
#include "cli/command.h"
#include "cli/interrupt_watch.h"
#include "cli/plan_text.h"
#include "cli/progress_line.h"
#include "cli/resume_command.h"
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

const char* what_is_counted(planning::SearchPart part) {
  switch (part) {
    case planning::SearchPart::judging:
      return "candidates";
    case planning::SearchPart::settling:
      return "candidates counted with every request";
    case planning::SearchPart::varying:
      return "changed assumptions";
  }
  return "";
}

/// Wall time since the beginning; what is left is of the part that goes on.
class PartClock {
 public:
  experiment::Progress progress(planning::SearchPart part, std::int64_t done, std::int64_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (part_ != part) {
      part_ = part;
      part_start_ = last_;
    }
    last_ = now;
    const std::chrono::duration<double> elapsed = now - start_, of_part = now - part_start_;
    experiment::Progress progress;
    progress.done = done;
    progress.total = total;
    progress.elapsed_seconds = elapsed.count();
    if (done > 0)
      progress.remaining_seconds = of_part.count() / static_cast<double>(done) * static_cast<double>(total - done);
    return progress;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point part_start_ = start_, last_ = start_;
  planning::SearchPart part_ = planning::SearchPart::judging;
};

/// What an interrupted plan leaves, and the command that goes on with it.
std::string last_words(const Arguments& arguments, std::int64_t num_judged, std::size_t num_candidates) {
  const auto output = arguments.text("output");
  if (!output) return "interrupted: nothing is kept (with -o FILE.h5 the candidates judged are, for --resume)";
  constexpr std::array kOptions{"set", "emit", "no-sensitivity"};
  return fmt::format("interrupted: {} of {} candidates are kept (in {}.candidates); the rest: {} --resume", num_judged,
                     num_candidates, *output, command_again("plan", arguments, *output, kOptions));
}

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
    const auto output = arguments.text("output");
    std::atomic<std::int64_t> num_judged{0};
    const InterruptWatch watch([&] { return last_words(arguments, num_judged.load(), plan.num_candidates()); });
    ProgressLine line(arguments.has("quiet"));
    planning::SearchOptions options;
    options.jobs = arguments.integer("jobs", 1, 4096).value_or(cores);
    options.on_progress = [&, clock = PartClock{}](planning::SearchPart part, std::int64_t done,
                                                   std::int64_t total) mutable {
      if (part == planning::SearchPart::judging) num_judged.store(done);
      line.show(clock.progress(part, done, total), what_is_counted(part));
    };
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

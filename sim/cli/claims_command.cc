#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

#include "base/data_directory.h"
#include "base/error.h"
#include "base/json_object.h"
#include "base/quoted_text.h"
#include "cli/command.h"
#include "cli/table.h"
#include "config/yaml_value.h"
#include "experiment/claim.h"
#include "experiment/run_evaluator.h"

namespace kvtide::cli {
namespace {

struct JudgedClaim {
  std::string path;
  experiment::Claim claim;
  experiment::ClaimOutcome outcome;
  std::vector<std::string> failures;
};

std::vector<std::string> claim_files(const std::string& place) {
  std::error_code error;
  if (!std::filesystem::is_directory(place, error)) return {place};
  std::vector<std::string> files;
  const std::filesystem::directory_iterator entries(place, error);
  if (error) throw EnvironmentError(fmt::format("{}: {}", place, error.message()));
  for (const auto& entry : entries) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  if (files.empty()) throw InputError(fmt::format("{}: holds no .yaml file", place));
  return files;
}

std::vector<experiment::RunResult> evaluate_all(const experiment::Experiment& experiment,
                                                experiment::RunEvaluator& evaluator, std::int64_t jobs) {
  std::vector<experiment::RunResult> results(experiment.runs.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t index = next++; index < results.size(); index = next++) {
      try {
        results[index] = evaluator.evaluate(experiment.runs[index]);
      } catch (const Error& error) {
        results[index] = experiment::RunResult::failure(error.what());
      }
    }
  };
  std::vector<std::jthread> workers;
  for (std::int64_t worker = 1; worker < jobs; ++worker) workers.emplace_back(work);
  work();
  workers.clear();
  return results;
}

JudgedClaim judge_file(const std::string& path, experiment::RunEvaluator& evaluator, std::int64_t jobs) {
  JudgedClaim judged;
  judged.path = path;
  config::Document document = config::Document::load(path);
  const config::Value value = document.root().at("claim");
  if (!value.exists()) throw InputError(fmt::format("{}: has no claim; kvtide run takes plain experiments", path));
  judged.claim = experiment::read_claim(value);
  value.finish();
  document.throw_if_errors();
  const experiment::Experiment experiment = experiment::load_experiment(path);
  const auto results = evaluate_all(experiment, evaluator, jobs);
  for (std::size_t run = 0; run < results.size(); ++run) {
    if (results[run].status == experiment::RunStatus::ok) continue;
    judged.failures.push_back(fmt::format("{}: run {}: {}", path, run, results[run].status_reason));
  }
  judged.outcome = experiment::judge(judged.claim, experiment, results);
  return judged;
}

void print_text(const std::vector<JudgedClaim>& claims) {
  Table table({{"claim"}, {"says"}, {"measured"}, {"expected"}, {"verdict"}});
  for (const JudgedClaim& judged : claims) {
    for (std::size_t index = 0; index < judged.claim.checks.size(); ++index) {
      const bool is_first = index == 0;
      table.add_row({is_first ? judged.claim.id : "", is_first ? judged.claim.says : "",
                     judged.claim.checks[index].part,
                     experiment::check_text(judged.claim.checks[index], judged.outcome.checks[index]),
                     is_first ? experiment::verdict_text(judged.claim, judged.outcome) : ""});
    }
  }
  fmt::print("{}", table.text());
}

void print_json(const std::vector<JudgedClaim>& claims) {
  std::vector<std::string> rows;
  for (const JudgedClaim& judged : claims) {
    std::vector<std::string> checks;
    for (std::size_t index = 0; index < judged.claim.checks.size(); ++index) {
      const auto& outcome = judged.outcome.checks[index];
      checks.push_back(fmt::format("{{\"part\": {}, \"value\": {}, \"bound\": {}, \"passes\": {}}}",
                                   quoted_text(judged.claim.checks[index].part), json_number(outcome.value),
                                   json_number(outcome.right), outcome.passes));
    }
    rows.push_back(fmt::format("{{\"id\": {}, \"says\": {}, \"file\": {}, \"verdict\": {}, \"checks\": [{}]}}",
                               quoted_text(judged.claim.id), quoted_text(judged.claim.says), quoted_text(judged.path),
                               quoted_text(experiment::verdict_text(judged.claim, judged.outcome)),
                               fmt::join(checks, ", ")));
  }
  fmt::print("{{\"claims\": [{}]}}\n", fmt::join(rows, ", "));
}

int run(const Arguments& arguments) {
  const std::string place =
      arguments.positional.empty() ? data_directory() + "/experiments/claims" : arguments.positional[0];
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  const std::int64_t jobs = arguments.integer("jobs", 1, 4096).value_or(cores);
  experiment::RunEvaluator evaluator;
  std::vector<JudgedClaim> claims;
  for (const std::string& path : claim_files(place)) {
    if (!arguments.has("quiet")) fmt::print(stderr, "{}\n", path);
    claims.push_back(judge_file(path, evaluator, jobs));
  }
  if (arguments.has("json")) {
    print_json(claims);
  } else {
    print_text(claims);
  }
  bool has_failures = false;
  for (const JudgedClaim& judged : claims) {
    for (const std::string& failure : judged.failures) fmt::print(stderr, "failed {}\n", failure);
    has_failures = has_failures || !judged.failures.empty();
  }
  return has_failures ? kSomeRunsFailed : kDone;
}

}  // namespace

Command claims_command() {
  return {.name = "claims",
          .positional = "[FOLDER|CLAIM.yaml]",
          .min_positional = 0,
          .max_positional = 1,
          .summary = "what people say about chunked compression, each as an experiment: holds, does not, holds if",
          .options = {{"jobs", "N", "worker threads, 1..4096 (default: all cores)"},
                      {"quiet", "", "no progress"},
                      {"json", "", "the table as JSON on stdout"}},
          .examples = {"kvtide claims", "kvtide claims experiments/claims/s01-two-tokens.yaml --json"},
          .run = &run};
}

}  // namespace kvtide::cli

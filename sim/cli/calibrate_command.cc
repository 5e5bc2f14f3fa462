#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/json_object.h"
#include "base/quoted_text.h"
#include "base/whole_file.h"
#include "cli/command.h"
#include "cli/table.h"
#include "model/weight_storage.h"
#include "planning/calibration_server.h"
#include "planning/server_log.h"

namespace kvtide::cli {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
constexpr std::size_t kRows = 32;
constexpr double kLeastLikelyFactor = 0.9;  // below it another number of GPUs is likelier than a faster kernel

std::string percent(double log_error) {
  return std::isnan(log_error) ? "-" : fmt::format("{:.1f} %", 100 * std::expm1(log_error));
}

/// What was measured, and on what.
struct Measured {
  planning::BenchmarkedServer server;
  std::vector<planning::MeasuredRun> runs;
  std::vector<std::string> assumed;  ///< options that are neither given nor in a log
};

Measured measured_of(const Arguments& arguments) {
  Measured measured;
  planning::BenchmarkedServer& server = measured.server;
  bool has_start_up = false;  // which names what differs from the engine's defaults
  for (const std::string& path : arguments.positional) {
    const std::string text = read_whole_file(path, kMaxBytes, "a benchmark's output or a server's log");
    if (!planning::is_server_log(text)) {
      for (const planning::MeasuredRun& one : planning::read_benchmarks(text, path)) measured.runs.push_back(one);
      continue;
    }
    const planning::ServerLog log = planning::read_server_log(text, path);
    has_start_up |= log.compression.has_value();
    if (server.model.empty()) server.model = log.model;
    server.weights = log.weights.value_or(server.weights);
    if (!log.unknown_weights.empty() && !arguments.has("weights")) {
      measured.assumed.push_back(fmt::format("--weights (the log's {} is not known)", log.unknown_weights));
    }
    server.tensor_parallel = log.tensor_parallel.value_or(server.tensor_parallel);
    server.max_num_seqs = log.max_num_seqs.value_or(server.max_num_seqs);
    server.max_num_batched_tokens = log.max_num_batched_tokens.value_or(server.max_num_batched_tokens);
    server.compression = log.compression.value_or(server.compression);
    measured.runs.insert(measured.runs.end(), log.decodes.begin(), log.decodes.end());
  }
  server.model = arguments.text("model").value_or(server.model);
  server.gpu = arguments.text("gpu").value_or("");
  if (server.model.empty() || server.gpu.empty()) {
    throw InputError("kvtide calibrate: --model and --gpu are required (a server's log may name the model)");
  }
  if (const auto weights = arguments.text("weights")) {
    if (*weights != "published" && !weight_format(*weights)) {
      throw InputError(fmt::format("kvtide calibrate: --weights: expected published, {}, got \"{}\"",
                                   fmt::join(weight_format_names(), ", "), *weights));
    }
    server.weights = *weights;
  }
  server.tensor_parallel = arguments.integer("tensor-parallel", 1, 1024).value_or(server.tensor_parallel);
  server.max_num_seqs = arguments.integer("max-num-seqs", 1, 65536).value_or(server.max_num_seqs);
  server.max_num_batched_tokens =
      arguments.integer("max-num-batched-tokens", 1, 1 << 20).value_or(server.max_num_batched_tokens);
  if (const auto preset = arguments.text("preset")) {
    server.compression = *preset == "none" ? "none" : fmt::format("{{preset: {}}}", quoted_text(*preset));
  }
  for (const char* option : {"tensor-parallel", "preset", "max-num-seqs", "max-num-batched-tokens"}) {
    if (!has_start_up && !arguments.has(option)) measured.assumed.push_back(fmt::format("--{}", option));
  }
  return measured;
}

std::string server_line(const Measured& measured) {
  const planning::BenchmarkedServer& server = measured.server;
  std::string line =
      fmt::format("Server: {}{} on {} x {}, cache {}, at most {} sequences and {} tokens a step.\n", server.model,
                  server.weights == "published" ? "" : fmt::format(" with weights in {}", server.weights),
                  server.tensor_parallel, server.gpu, server.compression == "none" ? "in 16 bits" : server.compression,
                  server.max_num_seqs, server.max_num_batched_tokens);
  if (!measured.assumed.empty()) {
    line += fmt::format("Assumed, neither given nor in a log: {}.\n", fmt::join(measured.assumed, ", "));
  }
  return line;
}

/// The constants as a plan and an experiment take them, or why they are not offered.
std::string advice(const planning::CalibrationOutcome& outcome, const planning::BenchmarkedServer& server) {
  const planning::Calibration& fitted = outcome.fitted;
  std::string text;
  if (fitted.step_factor < kLeastLikelyFactor) {
    text += fmt::format(
        "warning: steps are faster than the modeled GPU's: is this the right number of GPUs (--tensor-parallel {}), "
        "and the "
        "right GPU?\n",
        server.tensor_parallel);
  }
  if (outcome.is_worse()) {
    return text +
           "warning: the runs held out are predicted worse with these constants than without: no calibration is "
           "offered. Is "
           "the server as above?\n";
  }
  for (const auto& [name, error] :
       {std::pair("TPOT", &planning::CalibrationError::tpot), std::pair("TTFT", &planning::CalibrationError::ttft)}) {
    if (outcome.held_out_after.*error > outcome.held_out_before.*error) {
      text +=
          fmt::format("warning: {} of the runs held out is predicted worse with these constants than without.\n", name);
    }
  }
  return text + fmt::format(
                    "Under `plan:` of a plan, or in an experiment with a workload: calibration: {{step_factor: {:.3f}, "
                    "step_gap: \"{:.3f} ms\", ttft_offset: \"{:.1f} ms\"}}\n",
                    fitted.step_factor, fitted.step_gap * 1e3, fitted.ttft_offset * 1e3);
}

int run(const Arguments& arguments) {
  const Measured measured = measured_of(arguments);
  const planning::BenchmarkedServer& server = measured.server;
  const std::vector<planning::MeasuredRun>& runs = measured.runs;
  const planning::CalibrationOutcome outcome = planning::calibrate(runs, planning::predict_on(server));
  const planning::Calibration& fitted = outcome.fitted;
  if (arguments.has("json")) {
    fmt::print(
        "{{\"step_factor\": {}, \"step_gap_s\": {}, \"ttft_offset_s\": {}, \"runs\": {}, \"held_out\": {}, "
        "\"ttft_offset_runs\": {}, \"weights\": {}, \"tensor_parallel\": {}, \"compression\": {}, \"is_worse\": {}, ",
        json_figure(fitted.step_factor), json_figure(fitted.step_gap), json_figure(fitted.ttft_offset), runs.size(),
        outcome.num_held_out, outcome.num_offsets, quoted_text(server.weights), server.tensor_parallel,
        quoted_text(server.compression), outcome.is_worse());
    const auto error = [](const char* name, const planning::CalibrationError& one) {
      return fmt::format("\"{}\": {{\"ttft\": {}, \"tpot\": {}}}", name, json_figure(one.ttft), json_figure(one.tpot));
    };
    fmt::print("\"rms_log_error\": {{{}, {}, {}, {}}}}}\n", error("fitted_before", outcome.before),
               error("fitted_after", outcome.after), error("held_out_before", outcome.held_out_before),
               error("held_out_after", outcome.held_out_after));
    return kDone;
  }
  fmt::print("{}", server_line(measured));
  Table table({{"run", Align::right},
               {"decodes", Align::right},
               {"context", Align::right},
               {"rate /s", Align::right},
               {"users", Align::right},
               {"TPOT ms", Align::right},
               {"before", Align::right},
               {"after", Align::right},
               {"TTFT ms", Align::right},
               {"before", Align::right},
               {"after", Align::right},
               {"", Align::left}});
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto ms = [](double seconds) { return std::isnan(seconds) ? "-" : fmt::format("{:.2f}", seconds * 1e3); };
    const bool is_logged = runs[i].decode_sequences > 0;
    if (i >= kRows) break;
    table.add_row({fmt::format("{}", i), is_logged ? fmt::format("{}", runs[i].decode_sequences) : "-",
                   is_logged ? fmt::format("{:.0f}", runs[i].decode_context) : "-",
                   runs[i].rate > 0 ? fmt::format("{:g}", runs[i].rate) : "-",
                   runs[i].concurrency > 0 ? fmt::format("{}", runs[i].concurrency) : "-", ms(runs[i].mean_tpot),
                   ms(outcome.predicted_before[i].tpot), ms(outcome.predicted_after[i].tpot), ms(runs[i].mean_ttft),
                   ms(outcome.predicted_before[i].ttft), ms(outcome.predicted_after[i].ttft),
                   i % 2 == 1 ? "held out" : ""});
  }
  if (runs.size() > kRows) fmt::print("The first {} of {} runs:\n", kRows, runs.size());
  fmt::print("{}\nstep_factor {:.3f}, step_gap {:.3f} ms, ttft_offset {:.1f} ms\n", table.text(), fitted.step_factor,
             fitted.step_gap * 1e3, fitted.ttft_offset * 1e3);
  fmt::print(
      "error (root mean square of ratios): fitted runs TPOT {} -> {}, TTFT {} -> {}; held out TPOT {} -> {}, TTFT {} "
      "-> {}\n",
      percent(outcome.before.tpot), percent(outcome.after.tpot), percent(outcome.before.ttft),
      percent(outcome.after.ttft), percent(outcome.held_out_before.tpot), percent(outcome.held_out_after.tpot),
      percent(outcome.held_out_before.ttft), percent(outcome.held_out_after.ttft));
  if (outcome.num_held_out == 0) fmt::print("One run: nothing is held out, so the error after says nothing.\n");
  if (outcome.num_offsets == 0) {
    fmt::print("ttft_offset is not fitted: that takes a run with a TTFT that is not mostly queueing.\n");
  }
  fmt::print("{}", advice(outcome, server));
  return kDone;
}

}  // namespace

Command calibrate_command() {
  return {.name = "calibrate",
          .positional = "LOG...",
          .min_positional = 1,
          .max_positional = 1000,
          .summary =
              "your own vLLM or SGLang benchmark results or server logs -> the constants of your server, and how well "
              "they fit",
          .options = {{"model", "NAME", "a name of kvtide show models or a config.json"},
                      {"gpu", "NAME", "a name of kvtide show gpus"},
                      {"tensor-parallel", "N", "GPUs of the server (its log's, else 1)"},
                      {"weights", "FORMAT",
                       "of its linear layers, as weights: of an experiment (its log's, else published)"},
                      {"preset", "NAME", "its cache's type, of kvtide show presets (its log's, else none)"},
                      {"max-num-seqs", "N", "its batch limit (its log's, else 256)"},
                      {"max-num-batched-tokens", "N", "its tokens a step (its log's, else 8192)"},
                      {"json", "", "one JSON document on stdout"}},
          .examples = {"kvtide calibrate bench.log --model llama-3.1-8b --gpu h100-sxm",
                       "kvtide calibrate rate-*.json --model llama-3.1-70b --gpu h100-sxm --tensor-parallel 4 --json"},
          .run = &run};
}

}  // namespace kvtide::cli

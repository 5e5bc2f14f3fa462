#include "planning/server_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "base/error.h"
#include "experiment/import/import.h"
#include "model/model.h"

namespace kvtide::planning {
namespace {

constexpr const char* kVllm = "Avg generation throughput:";
constexpr const char* kSglang = "gen throughput (token/s):";
constexpr std::size_t kStartUpBytes = std::size_t{1} << 20;
constexpr std::size_t kMostDecodes = 400;
constexpr double kPromptShare = 0.01;  // of the generated tokens: prompts that a decode step may hide

/// The number behind a phrase; NaN where there is none.
double number_behind(const std::string& line, const char* phrase) {
  const std::size_t at = line.find(phrase);
  if (at == std::string::npos) return std::nan("");
  const char* const begin = line.c_str() + at + std::string(phrase).size();
  char* end = nullptr;
  const double value = std::strtod(begin, &end);
  return end == begin ? std::nan("") : value;
}

MeasuredRun decode_of(std::int64_t line, double running, double context, double tokens_per_second) {
  MeasuredRun run;
  run.line = line;
  run.mean_ttft = std::numeric_limits<double>::quiet_NaN();
  run.mean_tpot = running / tokens_per_second;
  run.decode_sequences = std::llround(running);
  run.decode_context = context;
  return run;
}

bool is_usable(const MeasuredRun& run) {
  return run.decode_sequences >= 1 && run.decode_sequences <= 65536 && run.decode_context >= 1 &&
         run.decode_context <= 1e8 && run.mean_tpot >= 1e-6 && run.mean_tpot <= 100;
}

}  // namespace

bool is_server_log(const std::string& text) {
  return text.find(kVllm) != std::string::npos || text.find(kSglang) != std::string::npos;
}

ServerLog read_server_log(const std::string& text, const std::string& name) {
  ServerLog log;
  std::optional<std::int64_t> pool;
  try {
    const experiment::Imported started = experiment::import_text(text.substr(0, kStartUpBytes), {});
    log.model = shipped_model(started.model);
    // A start-up names its model; then a type that it does not name is the engine's default.
    if (!started.model.empty() || started.compression != "none") log.compression = started.compression;
    log.unknown_weights = started.unknown_weights;
    if (started.weights) log.weights = to_string(*started.weights);
    if (started.tensor_parallel > 1) log.tensor_parallel = started.tensor_parallel;
    log.max_num_seqs = started.engine.max_num_seqs;
    log.max_num_batched_tokens = started.engine.max_num_batched_tokens;
    pool = started.pool_tokens;
  } catch (const InputError&) {
    // A log without its start-up: what was not read is asked of the command line.
  }
  std::vector<MeasuredRun> all;
  std::istringstream lines(text);
  std::string line;
  double before = -1;  // running requests of vLLM's line before
  bool lacks_pool = false;
  for (std::int64_t number = 1; std::getline(lines, line); ++number) {
    MeasuredRun run;
    if (line.find(kVllm) != std::string::npos) {
      const double running = number_behind(line, "Running:"), rate = number_behind(line, kVllm);
      const bool is_steady = running >= 1 && running == before && number_behind(line, "Waiting:") == 0 &&
                             number_behind(line, "Avg prompt throughput:") <= kPromptShare * rate;
      before = running;
      if (!is_steady || !(rate > 0)) continue;
      lacks_pool |= !pool;
      if (!pool) continue;
      const double share = number_behind(line, "KV cache usage:") / 100;
      run = decode_of(number, running, share * static_cast<double>(*pool) / running, rate);
    } else if (line.find(kSglang) != std::string::npos) {
      const double running = number_behind(line, "#running-req:"), rate = number_behind(line, kSglang);
      run = decode_of(number, running, number_behind(line, "#token:") / running, rate);
    } else {
      continue;
    }
    if (is_usable(run)) all.push_back(run);
  }
  if (all.empty()) {
    throw InputError(fmt::format(
        "{}: no line tells the time of a decode step: expected {}", name,
        lacks_pool
            ? "the start-up's \"GPU KV cache size: N tokens\" in the same log"
            : "vLLM's \"Avg generation throughput\" with as many requests running as in the line before, none waiting "
              "and no prompts, or SGLang's \"Decode batch\""));
  }
  const std::size_t stride = (all.size() + kMostDecodes - 1) / kMostDecodes;
  for (std::size_t i = 0; i < all.size(); i += stride) log.decodes.push_back(all[i]);
  return log;
}

}  // namespace kvtide::planning

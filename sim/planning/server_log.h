#pragma once
// What a server's own log tells of its speed, and of how it was started.
//
//   vLLM    "Avg generation throughput: 512.0 tokens/s, Running: 16 reqs, Waiting: 0 reqs, GPU KV cache usage: 10.0%": where nearly no
//           prompt tokens came and the line before names as many requests. The context follows from the share of the pool that the
//           start-up prints ("GPU KV cache size").
//   SGLang  "Decode batch. #running-req: 16, #token: 16000, ... gen throughput (token/s): 512.0"
//
// Example: 16 requests at 512 tokens/s: a step of 16 / 512 = 31.25 ms over 1,000 tokens of each.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planning/benchmark_log.h"

namespace kvtide::planning {

struct ServerLog {
  std::string model;                   ///< shipped, that the log's means; empty: not said, or none
  std::optional<std::string> weights;  ///< as `weights:` of an experiment, where they are not as published
  std::string unknown_weights;         ///< a format that is said and not known here
  std::optional<std::int64_t> tensor_parallel, max_num_seqs, max_num_batched_tokens;
  std::optional<std::string> compression;  ///< of its cache, as `compression:` of an experiment; none: no start-up read
  std::vector<MeasuredRun> decodes;        ///< at most 400, evenly picked
};

/// Holds lines of an engine at work.
[[nodiscard]] bool is_server_log(const std::string& text);

/// @param name  for messages  @throws InputError  no line tells the time of decode steps, with what is missing
[[nodiscard]] ServerLog read_server_log(const std::string& text, const std::string& name);

}  // namespace kvtide::planning

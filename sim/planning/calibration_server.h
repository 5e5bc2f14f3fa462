#pragma once
// The modeled server that a benchmark's runs are held against.

#include <cstdint>
#include <string>

#include "planning/calibration.h"

namespace kvtide::planning {

struct BenchmarkedServer {
  std::string model, gpu;
  std::string weights = "published";  ///< as `weights:` of an experiment
  std::int64_t tensor_parallel = 1;
  std::int64_t max_num_seqs = 256;
  std::int64_t max_num_batched_tokens = 8192;
  std::string compression = "none";  ///< of its cache, as `compression:` of an experiment; element types alone
};

/// Replays each run with prompts and outputs of its mean lengths: arrivals at random where it has a rate, else so many users that ask
/// again at once, else everything at the start. With a rate and a limit of requests in flight an arrival beyond it is sent once another is
/// answered, and its time counts from then, as the client's does. As many requests as were
/// measured: a queue grows with them. Of a server's log each line's decode step is priced as it is.
/// @throws InputError  the model does not fit the GPUs, or the cache does more than store entries in another type
[[nodiscard]] PredictRun predict_on(const BenchmarkedServer& server);

}  // namespace kvtide::planning

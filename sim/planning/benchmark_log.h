#pragma once
// What vLLM's and SGLang's serving benchmarks print or save: one run a block of text, or one JSON object.
//
// Text: "Mean TPOT (ms):   24.31" below a line with "Serving Benchmark Result", down to a line of "=" alone; what the client was told stands
// before that block or inside, where the block's own word counts. JSON: the saved result of either, one object a file or a line. Both name
// the same figures.

#include <cstdint>
#include <string>
#include <vector>

namespace kvtide::planning {

struct MeasuredRun {
  std::int64_t line = 1;                   ///< where it begins
  double rate = 0;                         ///< requests/s; 0: all at once
  std::int64_t concurrency = 0;            ///< requests in flight at most; 0: no limit
  std::int64_t requests = 0;               ///< that succeeded
  double mean_input = 0, mean_output = 0;  ///< tokens
  double mean_ttft = 0, mean_tpot = 0;     ///< s; mean_ttft NaN: not measured
  /// Of a server's own log: so many sequences decoded, each over so many tokens; 0: the run of a benchmark.
  std::int64_t decode_sequences = 0;
  double decode_context = 0;
};

/// In the order of the text. @param name  for messages  @throws InputError  no run, or one that lacks a figure, with what is missing
[[nodiscard]] std::vector<MeasuredRun> read_benchmarks(const std::string& text, const std::string& name);

}  // namespace kvtide::planning

#pragma once
// What an engine computes in one step, and how long that takes.

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace kvtide::serving {

/// A part of a prompt (or of a preempted sequence) in this step.
struct PrefillChunk {
  std::int64_t tokens = 0;     ///< > 0
  std::int64_t kv_before = 0;  ///< tokens of the sequence already in the cache
};

struct StepShape {
  std::vector<PrefillChunk> prefills;
  std::int64_t num_decodes = 0;
  std::int64_t decode_kv_tokens = 0;   ///< attended to by the decodes together, the new ones included
  std::int64_t compressed_tokens = 0;  ///< that a policy compresses in this step, in bursts
  std::int64_t num_rows = 0;           ///< sequences in the step: rows of LM head and sampler
  std::int64_t swapped_tokens = 0;     ///< entries copied to or from host memory before the step

  [[nodiscard]] std::int64_t num_tokens() const {
    std::int64_t tokens = num_decodes;
    for (const PrefillChunk& chunk : prefills) tokens += chunk.tokens;
    return tokens;
  }
};

class StepTime {
 public:
  virtual ~StepTime() = default;
  /// Deterministic. @param shape  at least one token
  [[nodiscard]] virtual Picoseconds duration(const StepShape& shape) = 0;

  /// `steps` steps one after another in which the same sequences decode a token each.
  /// @param num_decodes  >= 1  @param kv_tokens  decode_kv_tokens of the first step; each later one has `num_decodes` more
  [[nodiscard]] virtual Picoseconds decode_run(std::int64_t num_decodes, std::int64_t kv_tokens, std::int64_t steps) {
    StepShape shape{.prefills = {},
                    .num_decodes = num_decodes,
                    .decode_kv_tokens = kv_tokens,
                    .compressed_tokens = 0,
                    .num_rows = num_decodes,
                    .swapped_tokens = 0};
    Picoseconds sum{0};
    for (std::int64_t step = 0; step < steps; ++step) {
      sum += duration(shape);
      shape.decode_kv_tokens += num_decodes;
    }
    return sum;
  }
};

}  // namespace kvtide::serving

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
  std::int64_t decode_kv_tokens = 0;  ///< attended to by the decodes together, the new ones included
  std::int64_t num_rows = 0;          ///< sequences in the step: rows of LM head and sampler

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
};

}  // namespace kvtide::serving

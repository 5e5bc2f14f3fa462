#pragma once
// When a cache is compressed, beside block by block as blocks fill: between the chunks of a prompt, or every so many decode
// steps down to a target size; and how much of what lies in host memory comes back at each step.
//
// Decoding with target 1,024 and every 128: the cache holds 1,024 entries a head, grows to 1,152 in 128 steps, and is
// brought back to 1,024, whatever the context (kvpress DecodingPress).

#include <cstdint>

#include "kv/compression/compression.h"

namespace kvtide::kv {

struct CacheSchedule {
  std::int64_t prefill_chunk = 0;  ///< prompt tokens between two compressions; 0: layer by layer, whole prompts
  std::int64_t decode_target = 0;  ///< entries of a head after a compression in decode; 0: blocks as they fill
  std::int64_t decode_every = 0;   ///< decode steps between two compressions, >= 1 with a target
  PartsPerMillion recall = 0;      ///< of what a step reads, the share that comes from host memory
  bool operator==(const CacheSchedule&) const = default;
};

/// The setting with the keep ratio at which `num_positions` leave the schedule's target: with granularity token exactly
/// that many (up to a million positions), with blocks target / block_size of them, at least one; protected ones stay.
/// Without a target, the setting.
/// Example: 32,768 positions, target 1,000: 1 - ceil(31,768 / 32,768 * 10^6) / 10^6 = 0.030517;
/// 32,768 - floor(32,768 * 0.969483) = 1,000.
/// @pre  one evict stage, without a threshold, when there is a target
[[nodiscard]] Compression at_target(const Compression& setting, const CacheSchedule& schedule,
                                    std::int64_t num_positions);

}  // namespace kvtide::kv

#pragma once
// Switches of a serving engine, by vLLM's names; defaults are those of release 0.19.0 for a server.

#include <cstdint>

#include "serving/cache_growth.h"

namespace kvtide::serving {

struct EngineSettings {
  std::int64_t num_blocks = 0;                 ///< the null block included, >= 2
  std::int64_t block_size = 16;                ///< tokens, >= 1
  std::int64_t max_num_seqs = 256;             ///< running at once, >= 1
  std::int64_t max_num_batched_tokens = 2048;  ///< of one step, >= 1
  std::int64_t long_prefill_threshold = 0;     ///< most prompt tokens of one request in a step; 0: no limit
  bool prefix_caching = true;
  bool reserve_full_input = true;  ///< admit only when the whole known sequence fits the free blocks
  double watermark = 0;            ///< share of the blocks that an admission must leave free, 0..1
  bool reserve_output = false;     ///< admit only what fits to its last token beside all others (GUARANTEED_NO_EVICT)
  bool prefill_first = false;      ///< a step with prompt tokens has no decodes (SGLang)
  CacheGrowth growth{};  ///< of every sequence; one engine has one policy, so its prefix cache needs no other key

  /// @throws InputError
  void validate() const;
};

}  // namespace kvtide::serving

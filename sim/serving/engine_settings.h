#pragma once
// Switches of a serving engine, by vLLM's names; defaults are those of release 0.19.0 for a server.

#include <cstdint>

#include "serving/cache_growth.h"

namespace kvtide::serving {

/// Who goes first, and who must give way.
enum class SchedulingPolicy : std::uint8_t {
  fcfs,      ///< by arrival; the last admitted gives way
  priority,  ///< by Request::priority, then arrival; the worst gives way, even one that this step has scheduled
};

/// What an admission keeps free for tokens that are not there yet.
enum class Reservation : std::uint8_t {
  none,          ///< nothing: who runs out of blocks is preempted (vLLM; TensorRT-LLM's MAX_UTILIZATION)
  whole_output,  ///< everybody's last token: nobody is ever preempted (TensorRT-LLM's GUARANTEED_NO_EVICT)
  /// A share of what everybody may still generate (SGLang, output_estimate.h). The newcomer counts with what it must compute,
  /// its whole output and a block; no output counts beyond 4,096 tokens. After a refusal nobody is looked at before somebody
  /// has left the batch, but under priorities or with windows.
  /// Who gives way is who has generated least, among equals the longest prompt, and goes to the end of the line.
  estimated_output,
};

struct EngineSettings {
  std::int64_t num_blocks = 0;                 ///< the null block included, >= 2
  std::int64_t block_size = 16;                ///< tokens, >= 1
  std::int64_t max_num_seqs = 256;             ///< running at once, >= 1
  std::int64_t max_num_batched_tokens = 2048;  ///< of one step, >= 1
  std::int64_t long_prefill_threshold = 0;     ///< most prompt tokens of one request in a step; 0: no limit
  bool prefix_caching = true;
  bool reserve_full_input = true;  ///< admit only when the whole known sequence fits the free blocks
  double watermark = 0;            ///< share of the blocks that an admission must leave free, 0..1
  Reservation reservation = Reservation::none;
  bool prefill_first = false;  ///< a step with prompt tokens has no decodes (SGLang)
  SchedulingPolicy policy = SchedulingPolicy::fcfs;
  /// Blocks of host memory. Who must give way is copied there and back instead of being computed again, while there is
  /// room; both copies lengthen their step (StepShape::swapped_tokens).
  std::int64_t host_blocks = 0;
  CacheGrowth growth{};  ///< of every sequence; one engine has one policy, so its prefix cache needs no other key

  /// @throws InputError
  void validate() const;
};

}  // namespace kvtide::serving

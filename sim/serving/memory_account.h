#pragma once
// Where a GPU's memory goes in vLLM: what is left for the KV cache, and how many blocks that is. Per rank.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "serving/cache_growth.h"

namespace kvtide::serving {

/// Budget = total x utilization (of the total, not of what is free); KV = budget - weights - activations - other. CUDA graphs are
/// measured by the engine and not taken from the budget (release 0.19.0).
///
/// Example, Llama-3.1-8B on an H100 (vLLM's own figures, GiB): 79.18 x 0.9 - 14.99 - 4.76 - 0.13 = 51.38.
struct MemoryAccount {
  double total_bytes = 0;         ///< as the driver reports it
  double utilization = 0.9;       ///< gpu_memory_utilization, (0, 1]
  double weight_bytes = 0;        ///< on this rank
  double activation_bytes = 0;    ///< peak of a dummy step of max_num_batched_tokens
  double other_bytes = 0;         ///< CUDA context, NCCL
  double kv_bytes_per_token = 0;  ///< all layers that keep the whole context (else the windows'), on this rank
  std::int64_t block_size = 16;   ///< tokens

  [[nodiscard]] double budget_bytes() const { return total_bytes * utilization; }
  [[nodiscard]] double kv_bytes() const { return budget_bytes() - weight_bytes - activation_bytes - other_bytes; }
  /// Null block included. @throws InputError when not one sequence of `max_model_len` tokens fits, with what is short
  /// @param growth, step_tokens  of such a sequence: CacheGrowth::most_blocks()
  [[nodiscard]] std::int64_t num_blocks(std::int64_t max_model_len, const CacheGrowth& growth = {},
                                        std::int64_t step_tokens = 1) const;
  /// Name and bytes of each part of the total; they add up to it.
  [[nodiscard]] std::vector<std::pair<std::string, double>> parts() const;
};

/// Peak of vLLM's dummy step: the sampler works on `max_num_seqs` rows of logits in several copies (16 and 32 bit, sorted values,
/// indices, probabilities, sums: 38.2 B a logit), beside it 2.6 B an element of the hidden states.
///
/// Constants calibrated on seven rows of llm-d-planner's table of vLLM 0.11 on an H100 (1,024 sequences, 8,192 tokens), which they
/// reproduce within 0.02 GiB. Example, Llama-3.1-8B: 1,024 x 128,256 x 38.2 + 8,192 x 4,096 x 2.6 B = 5.10e9 B = 4.75 GiB.
[[nodiscard]] double predicted_activation_bytes(std::int64_t max_num_seqs, std::int64_t vocab_size,
                                                std::int64_t max_num_batched_tokens, std::int64_t hidden_size);

/// CUDA context growth and communication buffers on one rank: 0.13 GiB alone, 0.55 GiB with peers (the same table).
[[nodiscard]] double predicted_context_bytes(std::int64_t tensor_parallel);

}  // namespace kvtide::serving

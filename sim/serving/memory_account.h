#pragma once
// Where a GPU's memory goes in vLLM: what is left for the KV cache, and how many blocks that is. Per rank.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"

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
  double kv_bytes_per_token = 0;  ///< all layers, on this rank
  std::int64_t block_size = 16;   ///< tokens

  [[nodiscard]] double budget_bytes() const { return total_bytes * utilization; }
  [[nodiscard]] double kv_bytes() const { return budget_bytes() - weight_bytes - activation_bytes - other_bytes; }
  /// Null block included. @throws InputError when not one sequence of `max_model_len` tokens fits, with what is short
  [[nodiscard]] std::int64_t num_blocks(std::int64_t max_model_len) const;
  /// Name and bytes of each part of the total; they add up to it.
  [[nodiscard]] std::vector<std::pair<std::string, double>> parts() const;
};

}  // namespace kvtide::serving

#include "serving/memory_account.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"

namespace kvtide::serving {

std::int64_t MemoryAccount::num_blocks(std::int64_t max_model_len, const CacheGrowth& growth,
                                       std::int64_t step_tokens) const {
  const double block_bytes = kv_bytes_per_token * static_cast<double>(block_size);
  const double blocks = std::floor(kv_bytes() / block_bytes);
  const std::int64_t needed = growth.most_blocks(max_model_len, step_tokens, block_size);
  if (!(blocks >= static_cast<double>(needed + 1))) {
    const double needed_bytes = static_cast<double>(needed + 1) * block_bytes;
    throw InputError(fmt::format("one sequence of {} tokens needed {} of KV cache, available {}, short by {}",
                                 max_model_len, format_bytes(needed_bytes), format_bytes(std::max(0.0, kv_bytes())),
                                 format_bytes(needed_bytes - std::max(0.0, kv_bytes()))));
  }
  return static_cast<std::int64_t>(blocks);
}

std::vector<std::pair<std::string, double>> MemoryAccount::parts() const {
  return {{"weights", weight_bytes},
          {"activations", activation_bytes},
          {"context and communication", other_bytes},
          {"KV cache", kv_bytes()},
          {"outside the budget", total_bytes - budget_bytes()}};
}

double predicted_activation_bytes(std::int64_t max_num_seqs, std::int64_t vocab_size,
                                  std::int64_t max_num_batched_tokens, std::int64_t hidden_size) {
  constexpr double kBytesPerLogit = 38.2;
  constexpr double kBytesPerHidden = 2.6;
  return kBytesPerLogit * static_cast<double>(max_num_seqs) * static_cast<double>(vocab_size) +
         kBytesPerHidden * static_cast<double>(max_num_batched_tokens) * static_cast<double>(hidden_size);
}

double predicted_context_bytes(std::int64_t tensor_parallel) {
  constexpr double kAlone = 0.13 * 1073741824, kWithPeers = 0.55 * 1073741824;
  return tensor_parallel > 1 ? kWithPeers : kAlone;
}

}  // namespace kvtide::serving

#include "serving/memory_account.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"

namespace kvtide::serving {

std::int64_t MemoryAccount::num_blocks(std::int64_t max_model_len) const {
  const double block_bytes = kv_bytes_per_token * static_cast<double>(block_size);
  const double blocks = std::floor(kv_bytes() / block_bytes);
  const auto needed = ceil_div(max_model_len, block_size);
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

}  // namespace kvtide::serving

#pragma once
// Attention that cannot land on what was evicted goes elsewhere: who gains it. Softmax weights sum to 1 before and after, so
// what some positions lose others gain: sum of gains = lost attention. With eviction every kept position grows by the
// same factor 1 / (1 - m), so the gain goes where attention already was (mostly sinks), not to neighbours of the gap.
//
// Example: weights 0.4, 0.3, 0.2, 0.1; the last is evicted: the others grow by 1 / 0.9, the first gains 0.0444 of the 0.1.

#include <cstdint>
#include <vector>

#include "kv/head_cache.h"
#include "loss/attention_reference.h"

namespace kvtide::loss {

/// Where positions stand relative to what was compressed.
enum class Receiver : std::uint8_t { sinks, beside_gap, elsewhere, window, later };
inline constexpr std::size_t kNumReceivers = 5;

struct Surroundings {
  std::int64_t sinks = 4;           ///< first positions
  std::int64_t window = 64;         ///< newest of the compressed positions
  std::int64_t num_compressed = 0;  ///< later positions came after compression
  std::int64_t reach = 16;          ///< kept positions so near to an evicted one stand beside the gap
};

/// Gains sum_i w_i max(0, atilde_ij - a_ij) of one layer by receiver, mean over its heads; their sum is the layer's lost attention.
/// @param cache  the layer's KV heads, with entries
[[nodiscard]] std::vector<double> redistribution(const std::vector<HeadReference>& heads, const kv::LayerCache& cache,
                                                 const Surroundings& surroundings);

}  // namespace kvtide::loss

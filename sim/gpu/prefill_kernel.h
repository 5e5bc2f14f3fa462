#pragma once
// A prefill-attention kernel generation as data: which shapes a framework gives it, how it tiles them, and the few
// costs that no datasheet tells. Records stand in hw_profiles/kernel_sets/<architecture>.yaml.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "config/yaml_value.h"
#include "gpu/attention_kernel.h"
#include "gpu/kernel_work.h"

namespace kvtide::gpu {

/// Times in seconds.
struct PrefillKernel {
  std::string name;
  std::string framework;        ///< "vllm", "trtllm", "sglang"
  std::int64_t query_bits = 0;  ///< serves queries of this many bits; 0: any
  std::int64_t kv_bits = 0;     ///< serves a cache stored with this many bits; 0: any
  std::int64_t min_head_dim = 1;
  std::int64_t max_head_dim = 1 << 20;

  std::int64_t operand_bits = 16;  ///< of the tensor-core operands: 8 where an fp8 cache is used as it is
  bool packs_group = false;        ///< query heads of a KV head share a tile, so that short prompts fill it
  bool rotates = false;  ///< one pass before it splits q, k, v and rotates q and k; else k and v are copied only
  std::int64_t tile_queries = 128;
  std::vector<std::pair<std::int64_t, std::int64_t>> tiles;  ///< {head_dim compiled, keys of a tile}, ascending

  double fixed_time = 0;        ///< ramp and scheduling, once a call (launch not included)
  double task_time = 0;         ///< of one thread block: prologue, first loads, output
  double empty_block_time = 0;  ///< a block of a shorter sequence in a grid as long as the longest; 0: none is launched
  double append_time = 0;       ///< SM-seconds for each new token that goes to the cache (and is quantized)
  double query_time = 0;        ///< SM-seconds for each element of q that small kernels cast or copy before and after
  double tensor_efficiency = 0;  ///< of the tensor throughput inside a tile, 0..1
  double scores_per_clock = 0;   ///< softmax of one SM: exponentials and sums that the matrix work does not hide

  /// The first compiled head_dim that holds `head_dim` (a kernel compiled for 256 computes 192 at the price of 256), or
  /// `head_dim` itself beyond the list; with the keys of its tile.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> tile_of(std::int64_t head_dim) const;
  [[nodiscard]] bool serves(const PrefillAttentionWork& work) const;
};

/// Errors go to the document of `map`.
[[nodiscard]] PrefillKernel read_prefill_kernel(const config::Value& map, std::vector<ProfileFact>& facts);

}  // namespace kvtide::gpu

#pragma once
// The context from which attending a selection beats attending everything: sparse pays an indexer over all tokens and a
// selection, dense reads and multiplies every entry. Both as whole modules, projections included.

#include <cstdint>
#include <string>

#include "gpu/gpu.h"

namespace kvtide::gpu {

/// One layer's module in one decode step.
struct SparseSetting {
  std::string framework = "vllm";
  std::string model = "DeepSeek-V3.2";  ///< one of sparse_model()
  std::int64_t batch = 1;
  std::int64_t num_heads = 128;  ///< query heads on this GPU
  double weight_bytes_per_element = 1;
  std::int64_t kv_bits = 16;  ///< 16 or 8
};

/// The same module with dense latent attention: projections without the indexer's, small kernels, and the latent decode
/// kernel over all `context` entries, L2 cold. Its record is hw_profiles/attention_modules/<framework>-mla-*.yaml.
/// @throws InputError  no record or no latent kernel of the framework
[[nodiscard]] Picoseconds dense_module_time(Gpu& gpu, const SparseSetting& setting, std::int64_t context);

/// @throws InputError  as above
[[nodiscard]] Picoseconds sparse_module_time(Gpu& gpu, const SparseSetting& setting, std::int64_t context);

/// @return tokens; infinity where sparse does not win up to `longest`, the shortest context tried (512) where it always does
[[nodiscard]] double sparse_crossover(Gpu& gpu, const SparseSetting& setting, std::int64_t longest);

}  // namespace kvtide::gpu

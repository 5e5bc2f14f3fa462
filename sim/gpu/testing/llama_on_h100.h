#pragma once
// One model on one GPU for tests and benchmarks of steps: Llama-3.1-8B (figures of its public config.json) on an H100 SXM.

#include <memory>

#include "gpu/constant_rate_memory.h"
#include "gpu/gpu.h"
#include "gpu/iteration_model.h"

namespace kvtide::gpu::testing_support {

/// Its memory serves every pattern at 92 % of the pins, so that times follow from bytes by hand.
inline Gpu h100() {
  GpuProfile profile = load_gpu_profile("h100-sxm");
  auto memory = std::make_unique<ConstantRateMemory>(profile.bandwidth, 0.92);
  return {std::move(profile), std::move(memory)};
}

/// 32 x 2 x 8 x 128 x 2 B = 131,072 B of KV a token.
inline constexpr DecoderShape kLlama{.num_layers = 32,
                                     .hidden_size = 4096,
                                     .num_query_heads = 32,
                                     .num_kv_heads = 8,
                                     .head_dim = 128,
                                     .intermediate_size = 14336,
                                     .vocab_size = 128256};

/// K and V of a head in 16 bits: 2 x 128 x 2 B = 512 B, CachedLayer's default.
inline IterationModel::Options llama() {
  return {.shape = kLlama, .cache = {{.num_layers = 32, .num_kv_heads = 8}}, .page_size = 16};
}

}  // namespace kvtide::gpu::testing_support

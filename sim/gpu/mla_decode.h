#pragma once
// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434) in one decode step, with the up-projections absorbed into the
// query and the output: all query heads attend to one latent row a token, which serves as key (with the rotary part) and as
// value. One task a sequence; the kernel is a decode-attention kernel of its own generation (framework "mla-trtllm", ...).
//
// Example, DeepSeek-V3: 512 + 64 elements a token; 4,096 tokens in bf16 are 4,096 x 576 x 2 B = 4.7 MB a sequence, read
// once, not once as K and once as V. A query head costs 2 x (576 + 512) FLOP a token.

#include <cstdint>
#include <string>

#include "gpu/gpu_profile.h"
#include "gpu/kernel_work.h"

namespace kvtide::gpu {

struct MlaShape {
  std::int64_t batch = 1;
  std::int64_t num_entries = 0;  ///< tokens of each sequence
  std::int64_t num_heads = 1;    ///< query heads on this GPU
  std::int64_t latent_width = 512;
  std::int64_t rope_width = 64;
  std::int64_t element_bits = 16;  ///< 16 or 8
  std::int64_t page_size = 16;     ///< tokens of a page
};

/// "mla-trtllm" where the profile has it, else the framework of its first latent kernel; empty where it has none.
[[nodiscard]] std::string latent_framework(const GpuProfile& profile, const std::string& framework);

/// The same work as decode attention sees it.
/// @param framework  "trtllm", "sglang"; a framework without a latent kernel on this GPU gets the profile's first one
/// @throws InputError  the profile has no latent kernel, a shape out of range
[[nodiscard]] DecodeAttentionWork mla_decode_work(const GpuProfile& profile, const MlaShape& shape,
                                                  const std::string& framework);

}  // namespace kvtide::gpu

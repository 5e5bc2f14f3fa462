#include "gpu/mla_decode.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace kvtide::gpu {
namespace {

constexpr std::int64_t kMaxWidth = 65536;

}  // namespace

std::string latent_framework(const GpuProfile& profile, const std::string& framework) {
  std::string wanted = "mla-" + framework;
  std::string first;
  for (const AttentionKernel& kernel : profile.attention_kernels) {
    if (kernel.framework == wanted) return wanted;
    if (first.empty() && kernel.framework.starts_with("mla-")) first = kernel.framework;
  }
  return first;
}

DecodeAttentionWork mla_decode_work(const GpuProfile& profile, const MlaShape& shape, const std::string& framework) {
  if (shape.latent_width < 1 || shape.latent_width > kMaxWidth || shape.rope_width < 0 ||
      shape.rope_width > kMaxWidth || shape.page_size < 1 || shape.page_size > kMaxWidth || shape.num_entries < 0 ||
      shape.num_entries > std::int64_t{1} << 40 || (shape.element_bits != 16 && shape.element_bits != 8)) {
    throw InputError(
        fmt::format("latent attention: expected widths and pages of 1..65536, 0..2^40 tokens and 8 or 16 bits, got "
                    "{} + {} elements, pages of {}, {} tokens, {} bits",
                    shape.latent_width, shape.rope_width, shape.page_size, shape.num_entries, shape.element_bits));
  }
  const auto entry_bytes =
      static_cast<Bytes>(shape.latent_width + shape.rope_width) * static_cast<Bytes>(shape.element_bits / 8);
  DecodeAttentionWork work;
  work.tasks.push_back({.streams = {{static_cast<Bytes>(shape.num_entries) * entry_bytes,
                                     static_cast<Bytes>(shape.page_size) * entry_bytes}},
                        .num_entries = shape.num_entries,
                        .count = shape.batch});
  work.query_heads_per_task = shape.num_heads;
  work.num_sequences = shape.batch;
  work.head_dim = mean_product_width(shape.latent_width, shape.rope_width);
  work.is_latent = true;
  work.kernel = latent_framework(profile, framework);
  if (work.kernel.empty()) throw InputError(fmt::format("{}: no kernel for multi-head latent attention", profile.name));
  work.math_bits = shape.element_bits == 8 && profile.tensor_flops_8bit > 0 ? 8 : 16;
  if (profile.find_attention_kernel(work.kernel, work) == nullptr) work.math_bits = 16;
  return work;
}

}  // namespace kvtide::gpu

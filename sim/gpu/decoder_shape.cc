#include "gpu/decoder_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace kvtide::gpu {
namespace {

constexpr std::int64_t kMaxLayers = 100'000;
constexpr std::int64_t kMaxDimension = std::int64_t{1} << 31;

void in_range(std::int64_t value, std::int64_t min, std::int64_t max, const char* name) {
  if (value < min || value > max)
    throw InputError(fmt::format("model step: {} must be in {}..{}, got {}", name, min, max, value));
}

void divides(std::int64_t count, std::int64_t ranks, const char* what) {
  if (count % ranks != 0 && ranks % count != 0) {
    throw InputError(
        fmt::format("{} tensor-parallel ranks neither divide {} {} nor are a multiple of them", ranks, count, what));
  }
}

}  // namespace

HeadRange heads_of_rank(std::int64_t num_kv_heads, std::int64_t rank, std::int64_t num_ranks) {
  const std::int64_t first = rank * num_kv_heads / num_ranks;
  return {first, std::max(first + 1, (rank + 1) * num_kv_heads / num_ranks)};
}

void check(const DecoderShape& shape) {
  in_range(shape.num_layers, 1, kMaxLayers, "num_layers");
  in_range(shape.hidden_size, 1, kMaxDimension, "hidden_size");
  in_range(shape.num_query_heads, 1, 1 << 20, "num_query_heads");
  in_range(shape.num_kv_heads, 1, 1 << 20, "num_kv_heads");
  in_range(shape.head_dim, 1, 65536, "head_dim");
  in_range(shape.intermediate_size, 1, kMaxDimension, "intermediate_size");
  in_range(shape.vocab_size, 1, kMaxDimension, "vocab_size");
  in_range(shape.tensor_parallel, 1, 1024, "tensor_parallel");
  in_range(shape.pipeline_parallel, 1, shape.num_layers, "pipeline_parallel");
  if (!shape.layers.empty() && static_cast<std::int64_t>(shape.layers.size()) != shape.num_layers) {
    throw InputError(fmt::format("model step: layers needs one entry a layer ({}) or none, got {}", shape.num_layers,
                                 shape.layers.size()));
  }
  if (shape.experts.num_experts > 0) {
    in_range(shape.experts.num_active, 1, shape.experts.num_experts, "experts.num_active");
    in_range(shape.experts.intermediate_size, 1, kMaxDimension, "experts.intermediate_size");
    in_range(shape.experts.shared_intermediate_size, 0, kMaxDimension, "experts.shared_intermediate_size");
  }
  if (shape.expert_parallel != 1 && (shape.expert_parallel != shape.tensor_parallel || shape.experts.num_experts == 0 ||
                                     shape.experts.num_experts % shape.expert_parallel != 0)) {
    throw InputError(
        fmt::format("model step: expert_parallel must be 1 or tensor_parallel ({}) and divide the experts "
                    "({}), got {}",
                    shape.tensor_parallel, shape.experts.num_experts, shape.expert_parallel));
  }
  if (shape.num_query_heads % shape.tensor_parallel != 0) {
    throw InputError(fmt::format("{} tensor-parallel ranks do not divide {} query heads", shape.tensor_parallel,
                                 shape.num_query_heads));
  }
  if (shape.is_latent()) return;  // one vector for all heads, repeated on every rank
  for (std::int64_t layer_index = 0; layer_index < shape.num_layers; ++layer_index) {
    const AttentionLayer layer = shape.layer(layer_index);
    if (layer.state_bytes == 0) divides(layer.num_kv_heads, shape.tensor_parallel, "KV heads");
    if (shape.layers.empty()) break;
  }
}

double expected_experts(std::int64_t num_experts, std::int64_t num_active, std::int64_t num_tokens) {
  const auto experts = static_cast<double>(num_experts);
  const double missed = std::pow(1 - static_cast<double>(num_active) / experts, static_cast<double>(num_tokens));
  return experts * (1 - missed);
}

}  // namespace kvtide::gpu

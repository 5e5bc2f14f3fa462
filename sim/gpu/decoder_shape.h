#pragma once
// The matrices of a decoder as the machine multiplies them: attention, MLP or experts, and how GPUs divide them.

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "gpu/operand_format.h"

namespace kvtide::gpu {

/// Mixture of experts; num_experts 0: every layer has a dense MLP.
struct ExpertShape {
  std::int64_t num_experts = 0;               ///< routed
  std::int64_t num_active = 0;                ///< routed experts a token visits
  std::int64_t intermediate_size = 0;         ///< of one routed expert
  std::int64_t shared_intermediate_size = 0;  ///< of all shared experts together; every token visits them
  std::int64_t first_layer = 0;               ///< layers before it have the dense MLP
  bool operator==(const ExpertShape&) const = default;
};

/// Latent attention (MLA) in its absorbed form: queries are brought into the latent space, values out of it.
struct LatentShape {
  std::int64_t query_rank = 0;  ///< 0: queries are projected directly
  std::int64_t kv_rank = 0;     ///< 0: ordinary heads
  std::int64_t rope_dim = 0;
  std::int64_t nope_dim = 0;
  std::int64_t value_dim = 0;
  bool operator==(const LatentShape&) const = default;
};

/// What mixes the tokens of one layer.
struct AttentionLayer {
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t state_bytes = 0;  ///< linear attention: read and written once a sequence; then there is no KV
  bool operator==(const AttentionLayer&) const = default;
};

/// All counts >= 1 unless said.
struct DecoderShape {
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_query_heads = 0;
  std::int64_t num_kv_heads = 0;  ///< of layers that `layers` does not describe
  std::int64_t head_dim = 0;      ///< likewise; latent attention: latent + rotary
  std::int64_t intermediate_size = 0;
  std::int64_t vocab_size = 0;
  OperandFormat attention_format = OperandFormat::bfloat16;  ///< of the projections around attention
  OperandFormat mlp_format = OperandFormat::bfloat16;        ///< of dense MLPs and experts
  bool has_gated_mlp = true;                                 ///< three matrices, else two
  ExpertShape experts{};
  LatentShape latent{};
  std::vector<AttentionLayer> layers{};  ///< [layer], or empty: all alike
  std::int64_t tensor_parallel = 1;      ///< GPUs that share every layer
  /// 1: every expert is cut like a dense MLP. Else tensor_parallel: each rank holds num_experts / expert_parallel whole.
  std::int64_t expert_parallel = 1;
  std::int64_t pipeline_parallel = 1;  ///< groups of layers, one after another, at most num_layers
  bool operator==(const DecoderShape&) const = default;

  [[nodiscard]] bool is_latent() const { return latent.kv_rank > 0; }
  [[nodiscard]] bool has_experts(std::int64_t layer_index) const {
    return experts.num_experts > 0 && layer_index >= experts.first_layer;
  }
  [[nodiscard]] AttentionLayer layer(std::int64_t layer_index) const {
    if (layers.empty()) return {num_kv_heads, head_dim, 0};
    return layers[static_cast<std::size_t>(layer_index)];
  }
};

/// KV heads [first, last) of a layer.
struct HeadRange {
  std::int64_t first = 0, last = 0;
  [[nodiscard]] bool contains(std::int64_t head) const { return head >= first && head < last; }
};

/// What a tensor-parallel rank has of a layer: engines divide KV heads in order; ranks that outnumber them repeat each.
/// Example: rank 1 of 2 has heads 4..7 of 8, rank 3 of 16 has head 1.
/// @pre the ranks divide the heads or are a multiple of them
[[nodiscard]] HeadRange heads_of_rank(std::int64_t num_kv_heads, std::int64_t rank, std::int64_t num_ranks);

/// @throws InputError naming the field that is out of range, and heads that ranks do not divide
void check(const DecoderShape& shape);

/// Distinct experts that `num_tokens` tokens visit when each picks `num_active` of `num_experts` at random.
///
/// num_experts x (1 - (1 - num_active / num_experts)^num_tokens). Approximation: real routers are uneven and visit fewer.
/// Example: 8 experts, 2 active, 1 token: 2; 4 tokens: 8 x (1 - 0.75^4) = 5.47.
[[nodiscard]] double expected_experts(std::int64_t num_experts, std::int64_t num_active, std::int64_t num_tokens);

}  // namespace kvtide::gpu

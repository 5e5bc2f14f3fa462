// Weights of a decoder, from its shapes.

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "model/model.h"

namespace kvtide {
namespace {

std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  return checked_product(a, b, "parameters");
}

std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
  if (a > UINT64_MAX - b) throw InputError("parameters exceed 64 bits");
  return a + b;
}

/// The sizes as unsigned, so that products are checked.
struct Shape {
  explicit Shape(const Model& model)
      : layers(to(model.num_layers)),
        hidden(to(model.hidden_size)),
        query_heads(to(model.num_query_heads)),
        kv_heads(to(model.num_kv_heads)),
        head_dim(to(model.head_dim)),
        v_head_dim(to(model.v_head_dim)) {}
  static std::uint64_t to(std::int64_t value) { return static_cast<std::uint64_t>(value); }

  std::uint64_t layers, hidden, query_heads, kv_heads, head_dim, v_head_dim;
};

/// Projections of one layer with latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1): queries down and up, the
/// latent with its rotary key, its expansion to K and V, and the output.
std::uint64_t latent_projections(const Model& model, const Shape& shape) {
  const LatentAttention& latent = model.latent;
  const auto to = Shape::to;
  const std::uint64_t query_width = product(shape.query_heads, to(latent.nope_dim + latent.rope_dim));
  const std::uint64_t queries = latent.query_rank > 0 ? product(to(latent.query_rank), sum(shape.hidden, query_width))
                                                      : product(shape.hidden, query_width);
  const std::uint64_t down = product(shape.hidden, to(latent.kv_rank + latent.rope_dim));
  const std::uint64_t up =
      product(to(latent.kv_rank), product(shape.query_heads, to(latent.nope_dim + latent.value_dim)));
  const std::uint64_t output = product(shape.hidden, product(shape.query_heads, to(latent.value_dim)));
  return sum(sum(queries, down), sum(up, output));
}

std::uint64_t attention_projections(const Model& model, const Shape& shape) {
  if (model.latent.kv_rank > 0) return latent_projections(model, shape);
  const std::uint64_t keys_and_values = product(shape.kv_heads, shape.head_dim + shape.v_head_dim);
  const std::uint64_t queries_and_outputs = product(shape.query_heads, shape.head_dim + shape.v_head_dim);
  return product(shape.hidden, queries_and_outputs + keys_and_values);
}

/// With biases and norms; latent attention has a norm behind each of its two ways down.
std::uint64_t attention_parameters(const Model& model, const Shape& shape) {
  std::uint64_t total = attention_projections(model, shape);
  if (model.latent.kv_rank > 0) return sum(total, Shape::to(model.latent.query_rank + model.latent.kv_rank));
  const std::uint64_t query_width = product(shape.query_heads, shape.head_dim);
  const std::uint64_t key_width = product(shape.kv_heads, shape.head_dim);
  const std::uint64_t value_width = product(shape.kv_heads, shape.v_head_dim);
  if (model.has_qkv_bias) total = sum(total, query_width + key_width + value_width);
  if (model.weights.has_output_bias) total = sum(total, shape.hidden);
  if (model.weights.has_wide_qk_norm) {
    total = sum(total, query_width + key_width);
  } else if (model.has_qk_norm) {
    total = sum(total, 2 * shape.head_dim);
  }
  if (model.weights.has_sink_logits) total = sum(total, shape.query_heads);
  return total;
}

/// An MLP or expert of width `intermediate`: gate, up and down, or up and down alone.
std::uint64_t mlp_matrices(const Model& model, const Shape& shape, std::int64_t intermediate) {
  return product(product(shape.hidden, Shape::to(intermediate)), model.weights.has_gated_mlp ? 3 : 2);
}

/// With biases as wide as the outputs.
std::uint64_t mlp_parameters(const Model& model, const Shape& shape, std::int64_t intermediate) {
  const std::uint64_t total = mlp_matrices(model, shape, intermediate);
  const std::uint64_t inner = product(model.weights.has_gated_mlp ? 2 : 1, Shape::to(intermediate));
  return model.weights.has_mlp_bias ? sum(total, sum(inner, shape.hidden)) : total;
}

/// Of the whole model, what `storage` does not leave at 16 bits.
std::uint64_t narrow_parameters(const Model& model, const WeightStorage& storage) {
  if (storage.format == WeightFormat::bf16) return 0;
  const Shape shape(model);
  const Experts& experts = model.experts;
  const std::uint64_t attention = storage.keeps_attention ? 0 : attention_projections(model, shape);
  const std::uint64_t expert_layer =
      sum(product(Shape::to(experts.num_experts), mlp_matrices(model, shape, experts.intermediate_size)),
          mlp_matrices(model, shape, experts.shared_intermediate_size));
  const std::uint64_t num_dense = Shape::to(model.num_layers - experts.num_layers);
  return sum(product(shape.layers, attention),
             sum(product(num_dense, mlp_matrices(model, shape, model.intermediate_size)),
                 product(Shape::to(experts.num_layers), expert_layer)));
}

/// A layer's share of what Gemma-3n adds: the gate to and from its own embedding with a norm; AltUp's prediction, correction,
/// router and norm; LAuReL's two factors with a norm.
std::uint64_t side_parameters_of_layer(const SideInputs& side, const Shape& shape) {
  const std::uint64_t streams = Shape::to(side.num_streams);
  const std::uint64_t own = sum(product(2 * shape.hidden, Shape::to(side.width)), shape.hidden);
  const std::uint64_t altup = sum(product(shape.hidden, streams + 2), product(product(streams, streams), streams + 1));
  return sum(own, sum(altup, sum(product(2 * shape.hidden, Shape::to(side.laurel_rank)), shape.hidden)));
}

/// And the model's: embeddings of all layers, their projection and norm, the streams' ways in and out.
std::uint64_t side_parameters(const SideInputs& side, const Shape& shape) {
  const std::uint64_t all_widths = product(shape.layers, Shape::to(side.width));
  const std::uint64_t embedded = product(sum(Shape::to(side.vocab_size), shape.hidden), all_widths);
  const std::uint64_t ways = product(2 * (Shape::to(side.num_streams) - 1), product(shape.hidden, shape.hidden));
  return sum(sum(embedded, Shape::to(side.width)), ways);
}

/// @param num_visited  routed experts counted in each layer that has them
std::uint64_t count(const Model& model, std::int64_t num_visited) {
  if (!model.weights.is_known) {
    throw InputError(fmt::format("{}: the weights of class {} are not counted here", model.name, model.model_type));
  }
  const Shape shape(model);
  const std::uint64_t norm = product(shape.hidden, model.weights.has_norm_bias ? 2 : 1);
  const std::uint64_t norms = product(norm, Shape::to(model.weights.num_norms_per_layer));
  const bool has_side_inputs = model.side_inputs.width > 0;
  std::uint64_t every_layer = sum(attention_parameters(model, shape), norms);
  if (has_side_inputs) every_layer = sum(every_layer, side_parameters_of_layer(model.side_inputs, shape));

  const Experts& experts = model.experts;
  const std::uint64_t num_dense = Shape::to(model.num_layers - experts.num_layers);
  std::uint64_t mlps = product(num_dense, mlp_parameters(model, shape, model.intermediate_size));
  if (experts.num_layers > 0) {
    std::uint64_t layer = product(Shape::to(num_visited), mlp_parameters(model, shape, experts.intermediate_size));
    if (experts.shared_intermediate_size > 0) {
      layer = sum(layer, mlp_parameters(model, shape, experts.shared_intermediate_size));
    }
    layer = sum(layer, product(shape.hidden, Shape::to(experts.num_experts)));  // router
    if (model.weights.has_router_bias) layer = sum(layer, Shape::to(experts.num_experts));
    mlps = sum(mlps, product(Shape::to(experts.num_layers), layer));
  }
  std::uint64_t ends =
      sum(product(Shape::to(model.vocab_size), product(shape.hidden, model.tied_embeddings ? 1 : 2)), norm);
  if (model.weights.has_position_embeddings) ends = sum(ends, product(Shape::to(model.max_positions), shape.hidden));
  if (has_side_inputs) ends = sum(ends, side_parameters(model.side_inputs, shape));
  return sum(sum(product(shape.layers, every_layer), mlps), ends);
}

}  // namespace

std::uint64_t Model::num_parameters() const {
  return count(*this, experts.num_experts);
}

std::uint64_t Model::num_active_parameters() const {
  return count(*this, experts.num_active);
}

Bytes Model::weight_bytes(const WeightStorage& storage) const {
  const std::uint64_t all = num_parameters(), narrow = std::min(all, narrow_parameters(*this, storage));
  const double bytes = static_cast<double>(narrow) * bytes_per_weight(storage);
  (void)checked_product(all, 2, "weight bytes");  // narrow ones take less
  return 2 * (all - narrow) + static_cast<Bytes>(bytes);
}

WeightStorage Model::stored_in(WeightFormat format) const {
  return {.format = format, .keeps_attention = format == WeightFormat::mxfp4 && experts.num_experts > 0};
}

}  // namespace kvtide

#include "model/model_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json_object.h"
#include "base/quoted_text.h"

namespace kvtide {
namespace {

std::string layer_json(const LayerKind& layer) {
  JsonObject object;
  object.text("kind", to_string(layer.kind));
  object.number("count", layer.count);
  object.number("k_bytes", layer.k_bytes);
  object.number("v_bytes", layer.v_bytes);
  object.number_or_null("window", layer.window);
  object.number("num_kv_heads", layer.num_kv_heads);
  object.number("compress_ratio", layer.compress_ratio);
  object.number("index_bytes", layer.index_bytes);
  object.flag("is_latent", layer.is_latent);
  return object.str();
}

std::string rope_json(const Rope& rope) {
  JsonObject object;
  object.number("theta", rope.theta);
  object.number("rotary_dim", rope.rotary_dim);
  object.text("scaling", rope.scaling.type);
  object.number("factor", rope.scaling.factor);
  object.number("original_positions", rope.scaling.original_positions);
  return object.str();
}

}  // namespace

std::string model_json(const Model& model) {
  std::vector<std::string> layers;
  for (const LayerKind& layer : model.layers) layers.push_back(layer_json(layer));
  JsonObject object;
  object.text("name", model.name);
  object.text("source", model.source);
  object.text("model_type", model.model_type);
  object.number("kv_bytes_per_token", model.kv_bytes_per_token());
  object.number("kv_bytes_per_token_growing", model.kv_bytes_per_token_growing());
  object.number("kv_window_cap_bytes", window_cap_bytes(model.layers));
  object.text("kv_format", model.kv_format.name);
  object.number("kv_bytes_per_token_stored", model.kv_bytes_per_token_stored());
  object.raw("layers", json_list(layers));
  object.raw("kind_of_layer", fmt::format("[{}]", fmt::join(model.kind_of_layer, ", ")));
  object.number("num_layers", model.num_layers);
  object.number("num_query_heads", model.num_query_heads);
  object.number("num_kv_heads", model.num_kv_heads);
  object.number("head_dim", model.head_dim);
  object.number("v_head_dim", model.v_head_dim);
  object.number("hidden_size", model.hidden_size);
  object.number("intermediate_size", model.intermediate_size);
  object.number("vocab_size", model.vocab_size);
  object.number("max_positions", model.max_positions);
  object.number("num_experts", model.experts.num_experts);
  object.number("num_active_experts", model.experts.num_active);
  object.number("num_prediction_layers", model.num_prediction_layers);
  object.number_or_null("state_elements", model.state_elements);
  object.raw("rope", rope_json(model.rope));
  object.raw("sliding_rope", rope_json(model.sliding_rope));
  object.text("weight_format", model.published_weights.name);
  object.raw("num_parameters", model.weights.is_known ? fmt::format("{}", model.num_parameters()) : "null");
  object.raw("num_active_parameters",
             model.weights.is_known ? fmt::format("{}", model.num_active_parameters()) : "null");
  const std::optional<WeightStorage>& stored = model.published_weights.storage;
  object.raw("weight_bytes",
             stored && model.weights.is_known ? fmt::format("{}", model.weight_bytes(*stored)) : "null");
  object.raw("unsupported_reason",
             model.unsupported_reason().empty() ? "null" : quoted_text(model.unsupported_reason()));
  return object.str();
}

}  // namespace kvtide

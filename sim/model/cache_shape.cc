#include "model/cache_shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/given_value.h"

namespace kvtide {
namespace {

using config::Value;

constexpr std::int64_t kElementBytes = 2;  // fp16 or bf16

/// Stored heads and their widths, at most 65,536 each: products stay below 2^34.
struct HeadShape {
  std::int64_t num_kv_heads = 0;
  std::int64_t k_dim = 0;
  std::int64_t v_dim = 0;
};

std::int64_t width(const Value& text, const char* key, std::int64_t otherwise) {
  const Value value = text.at(key);
  return is_given(value) ? value.as_integer({.min = 1, .max = 65536}) : otherwise;
}

/// Gemma 4 gives full layers another shape, MiMo-V2 the sliding ones.
HeadShape full_shape(const Value& text, const Model& model) {
  HeadShape shape{model.num_kv_heads, model.head_dim, model.v_head_dim};
  shape.num_kv_heads = width(text, "num_global_key_value_heads", shape.num_kv_heads);
  if (is_given(text.at("global_head_dim"))) shape.k_dim = shape.v_dim = width(text, "global_head_dim", shape.k_dim);
  return shape;
}

HeadShape sliding_shape(const Value& text, const Model& model) {
  return {width(text, "swa_num_key_value_heads", model.num_kv_heads), width(text, "swa_head_dim", model.head_dim),
          width(text, "swa_v_head_dim", model.v_head_dim)};
}

Bytes key_bytes(const HeadShape& shape) {
  return static_cast<Bytes>(shape.num_kv_heads * shape.k_dim * kElementBytes);
}
Bytes value_bytes(const HeadShape& shape) {
  return static_cast<Bytes>(shape.num_kv_heads * shape.v_dim * kElementBytes);
}

/// Width of an indexer's key, one per stored entry: DeepSeek-V3.2 and V4, MiniMax-M3.
std::int64_t index_width(const Value& text) {
  const Value sparse = text.at("sparse_attention_config");
  if (is_given(sparse)) return sparse.integer("sparse_index_dim", {.min = 1, .max = 65536});
  return width(text, "index_head_dim", 0);
}

}  // namespace

void set_cache_shape(const Value& text, const ModelClass& model_class, const std::vector<LayerSpec>& specs,
                     Model& model) {
  const HeadShape full = full_shape(text, model);
  const HeadShape sliding = sliding_shape(text, model);
  const std::int64_t index = index_width(text);
  if (model_class.cache == CacheRule::one_key && model.num_kv_heads != 1) {
    text.at("num_key_value_heads")
        .error(fmt::format("expected 1 (one vector is key and value), got {}", model.num_kv_heads));
  }
  model.num_kv_heads = full.num_kv_heads;
  model.head_dim = full.k_dim;
  model.v_head_dim = full.v_dim;

  for (const LayerSpec& spec : specs) {
    LayerKind layer{.kind = spec.kind, .count = 1, .window = spec.window, .compress_ratio = spec.compress_ratio};
    const bool has_cache = spec.kind != AttentionKind::linear_attention && spec.kind != AttentionKind::no_attention &&
                           spec.kind != AttentionKind::shared_attention;
    if (has_cache) {
      HeadShape shape = spec.kind == AttentionKind::sliding_attention ? sliding : full;
      if (spec.num_kv_heads > 0) shape.num_kv_heads = spec.num_kv_heads;
      layer.is_latent = model.latent.kv_rank > 0 || model_class.cache == CacheRule::one_key;
      layer.num_kv_heads = shape.num_kv_heads;
      layer.k_bytes = key_bytes(shape);
      layer.v_bytes = layer.is_latent ? 0 : value_bytes(shape);
      if (spec.has_index) layer.index_bytes = static_cast<Bytes>(index * kElementBytes);
    }
    if (layer.k_bytes % static_cast<Bytes>(spec.compress_ratio) != 0) {
      text.at("compress_ratios")
          .error(fmt::format("expected divisors of the {} B of an entry, got {}", layer.k_bytes, spec.compress_ratio));
    }
    auto same = std::ranges::find_if(model.layers, [&](const LayerKind& known) { return known.stores_like(layer); });
    if (same == model.layers.end()) {
      model.layers.push_back(layer);
      same = model.layers.end() - 1;
    } else {
      ++same->count;
    }
    model.kind_of_layer.push_back(static_cast<std::size_t>(same - model.layers.begin()));
  }
  // MiniMax-Text-01: a linear layer's state is head_dim x head_dim a query head.
  if (model_class.type == "minimax_text_01") {
    model.state_elements = model.num_query_heads * model.head_dim * model.head_dim;
  }
}

}  // namespace kvtide

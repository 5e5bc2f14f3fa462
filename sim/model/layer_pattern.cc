#include "model/layer_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "model/given_value.h"

namespace kvtide {
namespace {

using config::Value;
using enum AttentionKind;
using Layers = std::optional<std::vector<LayerSpec>>;

LayerSpec of_kind(AttentionKind kind) {
  return {.kind = kind};
}

/// A list with one element per layer, possibly followed by the prediction layers'.
std::vector<Value> elements_per_layer(const Value& list, const PatternContext& context) {
  std::vector<Value> items = list.items();
  const auto size = static_cast<std::int64_t>(items.size());
  if (list.is_list() && size != context.num_layers && size != context.num_layers + context.num_prediction_layers) {
    list.error(fmt::format("expected one element per layer ({}), got {}", context.num_layers, size));
  }
  items.resize(static_cast<std::size_t>(std::min(size, context.num_layers)), list);
  return items;
}

/// One entry per layer from a function of its index.
std::vector<LayerSpec> by_index(const PatternContext& context, const std::function<AttentionKind(std::int64_t)>& kind) {
  std::vector<LayerSpec> layers;
  for (std::int64_t i = 0; i < context.num_layers; ++i) layers.push_back(of_kind(kind(i)));
  return layers;
}

struct Word {
  const char* word;
  AttentionKind kind;
};

/// `layer_types` of transformers and `layers_block_type` of hybrid models.
constexpr Word kWords[] = {{"full_attention", full_attention},
                           {"attention", full_attention},
                           {"deepseek_sparse_attention", full_attention},  // all tokens stored, few read
                           {"sliding_attention", sliding_attention},
                           {"chunked_attention", chunked_attention},
                           {"linear_attention", linear_attention},
                           {"mamba", linear_attention},
                           {"conv", linear_attention},
                           {"recurrent", linear_attention},
                           {"mlp", no_attention},
                           {"moe", no_attention}};

Layers from_words(const Value& list, const PatternContext& context) {
  if (!is_given(list)) return {};
  std::vector<std::string> allowed;
  for (const Word& word : kWords) allowed.emplace_back(word.word);
  std::vector<LayerSpec> layers;
  for (const Value& item : elements_per_layer(list, context)) {
    const std::string text = item.as_choice(allowed);
    const auto* word = std::ranges::find(kWords, text, [](const Word& known) { return std::string(known.word); });
    layers.push_back(of_kind(word == std::end(kWords) ? full_attention : word->kind));
  }
  return layers;
}

/// Lists of 0 and 1.
Layers from_flags(const Value& list, const PatternContext& context, AttentionKind zero, AttentionKind one) {
  if (!is_given(list)) return {};
  std::vector<LayerSpec> layers;
  for (const Value& item : elements_per_layer(list, context)) {
    layers.push_back(of_kind(item.as_integer({.min = 0, .max = 1}) == 1 ? one : zero));
  }
  return layers;
}

/// Nemotron-H: M a state-space layer, * attention, - an MLP, E experts.
Layers from_letters(const Value& letters, const PatternContext& context) {
  if (!is_given(letters)) return {};
  const std::string text = letters.as_string();
  if (static_cast<std::int64_t>(text.size()) != context.num_layers) {
    letters.error(fmt::format("expected one letter per layer ({}), got {}", context.num_layers, text.size()));
    return {};
  }
  std::vector<LayerSpec> layers;
  for (const char letter : text) {
    if (std::string_view("M*-E").find(letter) == std::string_view::npos) {
      letters.error(fmt::format("expected letters M, *, - and E, got '{}'", letter));
      return {};
    }
    layers.push_back(of_kind(letter == '*' ? full_attention : letter == 'M' ? linear_attention : no_attention));
  }
  return layers;
}

/// Indices of layers with attention; the others are linear. @param base  of the first layer: 0 or 1
Layers from_indices(const Value& list, const PatternContext& context, std::int64_t base) {
  if (!is_given(list)) return {};
  std::vector<LayerSpec> layers = by_index(context, [](std::int64_t) { return linear_attention; });
  for (const Value& item : list.items()) {
    const std::int64_t index = item.as_integer({.min = base, .max = base + context.num_layers - 1}) - base;
    layers[static_cast<std::size_t>(index)].kind = full_attention;
  }
  return layers;
}

/// Nemotron-NAS: attention that is missing, linear, or with a number of query heads per KV head of its own.
Layers from_block_configs(const Value& list, const PatternContext& context) {
  if (!is_given(list)) return {};
  std::vector<LayerSpec> layers;
  for (const Value& block : elements_per_layer(list, context)) {
    block.accept_all();
    const Value attention = block.at("attention");
    LayerSpec layer;
    if (attention.boolean("no_op", false) || attention.boolean("replace_with_linear", false)) {
      layer.kind = no_attention;
    } else {
      const Value group = attention.at("n_heads_in_group");
      const std::int64_t heads = group.as_integer({.min = 1, .max = 65536});
      if (context.num_query_heads % heads != 0) {
        group.error(
            fmt::format("expected a divisor of num_attention_heads {}, got {}", context.num_query_heads, heads));
      }
      layer.num_kv_heads = std::max<std::int64_t>(1, context.num_query_heads / heads);
      const Value window = attention.at("window_length");
      if (is_given(window)) {
        layer.kind = sliding_attention;
        layer.window = window.as_integer({.min = 1, .max = 1 << 30});
      }
      for (const char* key : {"num_sink_tokens", "sparsify"}) {
        if (is_given(attention.at(key))) attention.at(key).error("is not understood (expected null)");
      }
    }
    layers.push_back(layer);
  }
  return layers;
}

/// DeepSeek-V4: 0 a window alone, r an entry per r positions beside the window; entries of the finest ratio are chosen
/// by an indexer.
Layers from_compress_ratios(const Value& text, const PatternContext& context) {
  const Value list = text.at("compress_ratios");
  if (!is_given(list)) return {};
  std::vector<LayerSpec> layers;
  std::int64_t finest = INT64_MAX;
  for (const Value& item : elements_per_layer(list, context)) {
    const std::int64_t ratio = item.as_integer({.min = 0, .max = 1 << 20});
    if (ratio == 1) item.error("expected 0 (a window alone) or at least 2, got 1");
    LayerSpec layer = of_kind(ratio == 0 ? sliding_attention : compressed_attention);
    layer.compress_ratio = std::max<std::int64_t>(1, ratio);
    if (ratio > 0) finest = std::min(finest, ratio);
    layers.push_back(layer);
  }
  for (LayerSpec& layer : layers) {
    layer.has_index = layer.kind == compressed_attention && layer.compress_ratio == finest;
  }
  return layers;
}

/// sliding_window_pattern: n (every n-th layer full) or letters L and G, repeated; the class's n where absent.
Layers from_nth(const Value& text, const PatternContext& context) {
  Value pattern = text.at("sliding_window_pattern");
  if (!is_given(pattern)) pattern = text.at("_sliding_window_pattern");
  const std::int64_t by_class = context.model_class.nth_is_full;
  const auto nth = [&](std::int64_t n) {
    return by_index(context, [n](std::int64_t i) { return (i + 1) % n == 0 ? full_attention : sliding_attention; });
  };
  if (!is_given(pattern)) return by_class > 0 ? Layers(nth(by_class)) : Layers();
  const std::string letters = pattern.text();
  if (letters.empty() || letters.find_first_not_of("LG") != std::string::npos) {
    return nth(pattern.as_integer({.min = 1, .max = 10'000}));
  }
  return by_index(context, [&](std::int64_t i) {
    return letters[static_cast<std::size_t>(i) % letters.size()] == 'G' ? full_attention : sliding_attention;
  });
}

/// Llama 4: layers with rotation see a chunk, those without see everything; every 4th is without unless listed.
Layers from_no_rope_layers(const Value& text, const PatternContext& context) {
  const Value list = text.at("no_rope_layers");
  const Value interval = text.at("no_rope_layer_interval");
  if (is_given(list) && !(list.is_list() && list.items().empty())) {
    return from_flags(list, context, full_attention, chunked_attention);
  }
  const std::int64_t n = is_given(interval) ? interval.as_integer({.min = 1, .max = 10'000}) : 4;
  return by_index(context, [n](std::int64_t i) { return (i + 1) % n != 0 ? chunked_attention : full_attention; });
}

/// Layers with attention every so many, the others linear: Jamba's period and offset, Qwen3-Next's interval.
Layers from_period(const Value& text, const PatternContext& context) {
  const std::string type(context.model_class.type);
  std::int64_t period = 0;
  std::int64_t offset = 0;
  if (type == "jamba") {
    period = text.integer("attn_layer_period", {.fallback = 8, .min = 1, .max = 10'000});
    offset = text.integer("attn_layer_offset", {.fallback = 4, .min = 0, .max = 10'000});
  } else if (is_given(text.at("full_attention_interval")) || type == "qwen3_next") {
    period = text.integer("full_attention_interval", {.fallback = 4, .min = 1, .max = 10'000});
    offset = period - 1;
  }
  if (period == 0) return {};
  return by_index(context, [=](std::int64_t i) { return i % period == offset ? full_attention : linear_attention; });
}

/// What the file lists, in the order in which a list overrides a rule.
Layers listed(const Value& text, const PatternContext& context) {
  const Value linear_config = text.at("linear_attn_config");
  if (is_given(linear_config)) linear_config.accept_all();
  const std::vector<std::function<Layers()>> readers = {
      [&] { return from_block_configs(text.at("block_configs"), context); },
      [&] { return from_compress_ratios(text, context); },
      [&] { return from_words(text.at("layer_types"), context); },
      [&] { return from_words(text.at("layers_block_type"), context); },
      [&] { return from_letters(text.at("hybrid_override_pattern"), context); },
      [&] { return from_flags(text.at("attn_type_list"), context, linear_attention, full_attention); },
      [&] { return from_flags(text.at("hybrid_layer_pattern"), context, full_attention, sliding_attention); },
      [&] {
        return is_given(linear_config) ? from_indices(linear_config.at("full_attn_layers"), context, 1) : Layers();
      },
      [&] { return from_indices(text.at("attn_layer_indices"), context, 0); },
      [&] { return from_indices(text.at("full_attn_idxs"), context, 0); },
      [&] { return from_period(text, context); },
  };
  Layers first;
  for (const auto& reader : readers) {
    if (!first) first = reader();
  }
  return first;
}

/// The window length in force; 0: none. Records an error when the file has one that its class does not know.
std::int64_t window_in_force(const Value& text, const PatternContext& context, bool is_listed) {
  const Value window = text.at("sliding_window");
  const Value duplicate = text.at("sliding_window_size");
  const Value is_used = text.at("use_sliding_window");
  const WindowRule rule = context.model_class.window_rule;
  const bool is_off = is_given(is_used) ? !is_used.as_bool(true) : rule == WindowRule::from_max_window_layers;
  std::int64_t length = context.model_class.window;
  if (window.exists()) length = window.is_null() ? 0 : window.as_integer({.min = 1, .max = INT64_MAX / 2});
  if (is_given(duplicate) && duplicate.as_integer({.min = 1}) != length) {
    duplicate.error(fmt::format("expected the same as sliding_window {}", length));
  }
  if (is_off || length >= context.max_positions) return 0;
  if (rule == WindowRule::no_layer && !is_listed && length > 0) {
    window.error(fmt::format(
        "which layers have this window of {} is not stated: class {} has none (write layer_types, or null for none)",
        length, context.model_class.type));
  }
  return length;
}

/// The class's rule for a file that lists nothing.
std::vector<LayerSpec> by_rule(const Value& text, const PatternContext& context, std::int64_t window) {
  auto all_full = by_index(context, [](std::int64_t) { return full_attention; });
  if (context.model_class.must_list) {
    text.error(fmt::format("does not list its layers (layer_types or an equivalent), which class {} needs",
                           context.model_class.type));
  }
  if (context.model_class.type == "llama4_text") return *from_no_rope_layers(text, context);
  if (window == 0) return all_full;
  switch (context.model_class.window_rule) {
    case WindowRule::no_layer:
      return all_full;
    case WindowRule::every_layer:
      return by_index(context, [](std::int64_t) { return sliding_attention; });
    case WindowRule::even_layers:
      return by_index(context, [](std::int64_t i) { return i % 2 == 0 ? sliding_attention : full_attention; });
    case WindowRule::all_but_every_nth:
      return *from_nth(text, context);
    case WindowRule::from_max_window_layers: {
      const std::int64_t first = text.integer("max_window_layers", {.fallback = 28, .min = 0, .max = 10'000});
      return by_index(context, [first](std::int64_t i) { return i >= first ? sliding_attention : full_attention; });
    }
  }
  return all_full;
}

/// Gives every layer its window; one that no position can leave is none.
void set_windows(const Value& text, const PatternContext& context, std::int64_t window,
                 std::vector<LayerSpec>& layers) {
  const Value chunk = text.at("attention_chunk_size");
  std::int64_t chunk_length = 0;
  if (chunk.exists()) {
    chunk_length = chunk.is_null() ? 0 : chunk.as_integer({.min = 1, .max = 1 << 30});
  } else if (context.model_class.type == "llama4_text") {
    chunk_length = 8192;  // Llama4TextConfig, transformers 4.57.1
  }
  const bool is_off = is_given(text.at("use_sliding_window")) && !text.at("use_sliding_window").as_bool(true);
  const Value length = text.at("sliding_window");
  for (LayerSpec& layer : layers) {
    if (layer.kind == sliding_attention && layer.window == 0) {
      layer.window = window;
      if (window == 0 && is_off) {
        text.at("use_sliding_window").error("is false, yet the layer list has sliding layers");
      } else if (window == 0 && !is_given(length)) {
        text.at("sliding_window").error("missing; the layer list has sliding layers");
      }
    } else if (layer.kind == compressed_attention) {
      layer.window = window;
    } else if (layer.kind == chunked_attention) {
      layer.window = chunk_length;
    }
    if (layer.window >= context.max_positions) layer.window = 0;
    const bool has_cut = layer.kind == sliding_attention || layer.kind == chunked_attention;
    if (has_cut && layer.window == 0) layer.kind = full_attention;
  }
}

/// Gemma-3n and later: the last layers read the cache of the last one before them that looks as far back; a window is
/// kept for that.
void share_last_layers(const Value& text, std::vector<LayerSpec>& layers) {
  const Value shared = text.at("num_kv_shared_layers");
  if (!is_given(shared)) return;
  const auto num_layers = static_cast<std::int64_t>(layers.size());
  const std::int64_t num_shared = shared.as_integer({.min = 0, .max = std::max<std::int64_t>(0, num_layers - 1)});
  for (std::int64_t i = num_layers - num_shared; i < num_layers; ++i) {
    LayerSpec& layer = layers[static_cast<std::size_t>(i)];
    const std::int64_t window = layer.window;
    layer = of_kind(shared_attention);
    layer.window = window;
  }
}

/// Layers whose indexer keeps keys of its own: DeepSeek-V3.2 (every layer unless indexer_types says "shared"),
/// MiniMax-M3 (sparse_attention_freq).
void set_indexers(const Value& text, const PatternContext& context, std::vector<LayerSpec>& layers) {
  const Value sparse = text.at("sparse_attention_config");
  if (is_given(sparse)) {
    sparse.accept_all();
    if (!sparse.boolean("use_sparse_attention", true)) return;
    std::size_t i = 0;
    for (const Value& item : elements_per_layer(sparse.at("sparse_attention_freq"), context)) {
      if (i < layers.size()) layers[i++].has_index = item.as_integer({.min = 0, .max = 1}) == 1;
    }
    return;
  }
  if (context.model_class.cache != CacheRule::latent || !is_given(text.at("index_head_dim"))) return;
  for (LayerSpec& layer : layers) layer.has_index = layer.kind == full_attention;
  const Value types = text.at("indexer_types");
  if (!is_given(types)) return;
  std::size_t i = 0;
  for (const Value& item : elements_per_layer(types, context)) {
    if (item.as_choice({"full", "shared"}) == "shared" && i < layers.size()) layers[i].has_index = false;
    ++i;
  }
}

}  // namespace

std::vector<LayerSpec> read_layer_pattern(const Value& text, const PatternContext& context) {
  Layers list = listed(text, context);
  const std::int64_t window = window_in_force(text, context, list.has_value());
  std::vector<LayerSpec> layers = list ? *std::move(list) : by_rule(text, context, window);
  layers.resize(static_cast<std::size_t>(context.num_layers));
  set_windows(text, context, window, layers);
  set_indexers(text, context, layers);
  share_last_layers(text, layers);
  return layers;
}

}  // namespace kvtide

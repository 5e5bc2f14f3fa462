#include "model/config_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/data_directory.h"
#include "model/cache_shape.h"
#include "model/experts_reader.h"
#include "model/given_value.h"
#include "model/harmless_keys.h"
#include "model/kv_format_reader.h"
#include "model/layer_pattern.h"
#include "model/model_class.h"
#include "model/rope_reader.h"

namespace kvtide {
namespace {

using config::Value;

constexpr std::int64_t kMaxHidden = 1 << 24;  // with 10,000 layers, weights stay below 2^64

/// A quantity with several names; the first that is given. Two that differ are an error.
Value one_of(const Value& text, const std::vector<const char*>& names) {
  std::optional<Value> found;
  for (const char* name : names) {
    const Value value = text.at(name);
    if (!is_given(value)) continue;
    if (found && found->text() != value.text()) {
      value.error(fmt::format("says {}, while {} says {}", value.text(), found->path(), found->text()));
    }
    if (!found) found = value;
  }
  return found ? *found : text.at(names.front());
}

/// Files of models with images whose language part does not name its class.
struct Composite {
  const char* type;
  const char* text_type;
};
constexpr Composite kComposites[] = {{"gemma3", "gemma3_text"},     {"gemma3n", "gemma3n_text"},
                                     {"gemma4", "gemma4_text"},     {"llama4", "llama4_text"},
                                     {"mistral3", "mistral"},       {"minimax_m3_vl", "minimax_m3"},
                                     {"qwen3_vl", "qwen3_vl_text"}, {"qwen3_vl_moe", "qwen3_vl_moe_text"},
                                     {"qwen3_5", "qwen3_5_text"},   {"qwen3_5_moe", "qwen3_5_moe_text"}};

/// The map with the language model's fields.
Value language_part(const Value& root) {
  for (const char* key : {"text_config", "llm_config", "language_config"}) {
    Value part = root.at(key);
    if (!is_given(part)) continue;
    root.accept_all();
    return part;
  }
  return root;
}

/// @return nullptr after recording an error
const ModelClass* read_class(const Value& root, const Value& text) {
  Value type = text.at("model_type");
  std::string word = is_given(type) ? type.as_string() : "";
  if (!is_given(type) && is_given(root.at("model_type"))) {
    type = root.at("model_type");
    const auto* composite =
        std::ranges::find(kComposites, type.text(), [](const Composite& known) { return std::string(known.type); });
    word = composite == std::end(kComposites) ? type.text() : composite->text_type;
  } else if (!is_given(type)) {
    if (is_given(text.at("architectures"))) {
      type.error(fmt::format("missing, and with it the defaults of {}", text.at("architectures").text()));
      return nullptr;
    }
    word = "llama";
  }
  const ModelClass* found = find_model_class(word);
  if (found == nullptr) {
    const std::vector<std::string> known = known_model_classes();
    const std::string nearest = nearest_name(word, known);
    const bool is_composite = std::ranges::any_of(kComposites, [&](const Composite& c) { return word == c.type; });
    type.error(is_composite
                   ? fmt::format("a {} file needs a text_config with the language model's fields", word)
                   : fmt::format("the class \"{}\" is not known: its defaults, windows and cache cannot be told{}",
                                 word, nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest)));
  }
  return found;
}

/// KV heads of a full layer; Falcon's rules first (FalconConfig and FalconAttention, transformers 4.57.1).
std::int64_t read_kv_heads(const Value& text, const ModelClass& model_class, std::int64_t query_heads) {
  const Value heads = one_of(text, {"num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"});
  const Value multi_query = text.at("multi_query");
  const Value new_architecture = text.at("new_decoder_architecture");
  const std::string type(model_class.type);
  const bool is_falcon = type == "falcon" || type == "RefinedWebModel";
  // RefinedWeb (Falcon-40B before its renaming) is the new architecture.
  if (is_falcon && !(is_given(new_architecture) && new_architecture.as_bool(false))) {
    if (is_given(heads)) (void)heads.as_integer({.min = 1, .max = 65536});
    if (!multi_query.exists() && type == "RefinedWebModel")
      multi_query.error("missing; decides between 1 and all KV heads");
    return is_given(multi_query) && !multi_query.as_bool(true) ? query_heads : 1;
  }
  if (type == "gpt_bigcode" && !is_given(heads)) return multi_query.as_bool(true) ? 1 : query_heads;
  if (heads.is_null()) return query_heads;
  const std::int64_t absent = model_class.kv_heads > 0 ? model_class.kv_heads : query_heads;
  const std::int64_t count = heads.as_integer({.fallback = absent, .min = 1, .max = 65536});
  if (query_heads % count != 0) {
    heads.error(heads.exists() ? fmt::format("expected a divisor of num_attention_heads {}, got {}", query_heads, count)
                               : fmt::format("missing; class {} means {}, which does not divide num_attention_heads {}",
                                             type, count, query_heads));
    return query_heads;
  }
  return count;
}

std::int64_t read_head_dim(const Value& text, const ModelClass& model_class, const Model& model) {
  const Value head_dim = one_of(text, {"head_dim", "attention_head_dim", "kv_channels"});
  if (is_given(head_dim)) return head_dim.as_integer({.min = 1, .max = 65536});
  if (!head_dim.exists() && model_class.head_dim > 0) return model_class.head_dim;
  if (model.hidden_size % model.num_query_heads != 0) {
    text.error(fmt::format("head_dim is absent and hidden_size {} is not a multiple of num_attention_heads {}",
                           model.hidden_size, model.num_query_heads));
    return 1;
  }
  return std::max<std::int64_t>(1, model.hidden_size / model.num_query_heads);
}

std::int64_t read_count(const Value& value, std::int64_t fallback, std::int64_t max) {
  if (value.is_null() || (!value.exists() && fallback > 0)) return fallback;
  return value.as_integer({.min = 1, .max = max});
}

/// Nemotron-H files may leave the number of layers to their layer list.
std::int64_t num_listed_layers(const Value& text, const Value& num_layers) {
  const Value list = text.at("layers_block_type");
  const Value letters = text.at("hybrid_override_pattern");
  const std::size_t size = list.is_list() ? list.items().size() : letters.is_scalar() ? letters.text().size() : 0;
  return size > 0 && size <= 10'000 ? static_cast<std::int64_t>(size) : read_count(num_layers, 0, 10'000);
}

/// Gemma-3n files list the width of every layer's MLP. @return the first, with an error where they differ
Value one_width(const Value& widths) {
  const std::vector<Value> items = widths.items();
  for (const Value& item : items) {
    if (item.text() != items.front().text()) {
      item.error(fmt::format("expected MLPs of one width, got {} beside {}", item.text(), items.front().text()));
      break;
    }
  }
  return items.empty() ? widths : items.front();
}

void read_sizes(const Value& text, const ModelClass& model_class, Model& model) {
  const Value num_layers = one_of(text, {"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
  model.num_layers = is_given(num_layers) ? read_count(num_layers, 0, 10'000) : num_listed_layers(text, num_layers);
  model.num_query_heads =
      read_count(one_of(text, {"num_attention_heads", "n_head", "n_heads"}), model_class.query_heads, 65536);
  model.hidden_size = read_count(one_of(text, {"hidden_size", "n_embd", "d_model", "n_embed"}), 0, kMaxHidden);
  // A null stands for "missing" where the class has no default.
  for (std::int64_t* size : {&model.num_layers, &model.num_query_heads, &model.hidden_size}) {
    if (*size == 0) {
      text.error("num_hidden_layers, num_attention_heads and hidden_size must be given");
      *size = 1;
    }
  }
  Value positions = text.at("max_position_embeddings");
  for (const char* older : {"n_positions", "max_sequence_length", "max_seq_len", "seq_length", "n_ctx"}) {
    if (!is_given(positions)) positions = text.at(older);
    (void)text.at(older);
  }
  if (!is_given(positions) && model_class.positions == 0) {
    text.at("max_position_embeddings").error("missing; expected the largest number of positions");
  }
  model.max_positions = read_count(positions, std::max<std::int64_t>(1, model_class.positions), 1 << 30);

  const Value vocab = one_of(text, {"vocab_size", "padded_vocab_size"});
  model.vocab_size = vocab.exists() || model_class.vocab == 0
                         ? (is_given(vocab) ? vocab.as_integer({.min = 1, .max = 1 << 28}) : 0)
                         : model_class.vocab;
  Value inner = one_of(text, {"intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim"});
  if (inner.is_list()) inner = one_width(inner);
  model.intermediate_size = is_given(inner) ? inner.as_integer({.min = 1, .max = 1 << 26}) : model_class.intermediate;
  const bool is_four_fold = !model_class.gated && model.intermediate_size == 0;  // GPT-2, Falcon
  if (is_four_fold) model.intermediate_size = 4 * model.hidden_size;
}

/// Biases, norms and other small weights.
void read_traits(const Value& text, const ModelClass& model_class, Model& model) {
  const std::string type(model_class.type);
  WeightTraits& weights = model.weights;
  weights.is_known = model_class.counted && model.vocab_size > 0 && model.intermediate_size > 0;
  weights.has_gated_mlp = model_class.gated;
  weights.has_norm_bias = model_class.norm_bias;
  weights.num_norms_per_layer = model_class.norms;
  weights.has_router_bias = model_class.router_bias;
  weights.has_output_bias = model_class.output_bias;
  model.has_qkv_bias = model_class.qkv_bias;
  model.has_qk_norm = model_class.qk_norm;

  const Value bias = text.at("attention_bias");
  if (is_given(bias) && type != "gpt2") {
    model.has_qkv_bias = bias.as_bool(false);
    weights.has_output_bias = model.has_qkv_bias && !model_class.bias_spares_output;
    if (model_class.cache == CacheRule::latent && model.has_qkv_bias) weights.is_known = false;
  }
  for (const char* key : {"qkv_bias", "use_qkv_bias"}) {
    if (is_given(text.at(key))) model.has_qkv_bias = text.at(key).as_bool(false);
  }
  const Value mlp_bias = text.at("mlp_bias");
  weights.has_mlp_bias = (is_given(mlp_bias) && mlp_bias.as_bool(false)) || type == "gpt2" || type == "gpt_oss";
  const Value qk_norm = text.at("use_qk_norm");
  const bool uses_qk_norm = is_given(qk_norm) && qk_norm.as_bool(false);
  if (type == "glm4_moe") model.has_qk_norm = uses_qk_norm;
  if (type == "cohere" && uses_qk_norm) weights.is_known = false;
  if (type == "minimax_m2")
    weights.has_wide_qk_norm = uses_qk_norm && text.at("qk_norm_type").as_string("per_layer") == "per_layer";
  weights.has_sink_logits = type == "gpt_oss";
  weights.has_position_embeddings = type == "gpt2";
  if (type == "falcon" || type == "RefinedWeb" || type == "RefinedWebModel") {
    const Value is_new = text.at("new_decoder_architecture");
    const bool has_two_norms =
        type == "RefinedWeb" || (is_given(is_new) && is_new.as_bool(false)) || !text.boolean("parallel_attn", true);
    weights.num_norms_per_layer = has_two_norms ? 2 : 1;  // FalconDecoderLayer, transformers 4.57.1
    model.has_qkv_bias = weights.has_output_bias = weights.has_mlp_bias = text.boolean("bias", false);
  }
}

/// Gemma-3n; absent keys have the values of its class (Gemma3nTextConfig, transformers 4.57.1).
void read_side_inputs(const Value& text, const ModelClass& model_class, Model& model) {
  if (model_class.type != "gemma3n_text") return;
  const auto size = [&](const char* key, std::int64_t fallback) {
    return text.integer(key, {.fallback = fallback, .min = 1, .max = 1 << 28});
  };
  model.side_inputs = {.width = size("hidden_size_per_layer_input", 256),
                       .vocab_size = size("vocab_size_per_layer_input", 262144),
                       .num_streams = size("altup_num_inputs", 4),
                       .laurel_rank = size("laurel_rank", 64)};
}

/// MLA: ranks and widths, all from the file.
void read_latent(const Value& text, const ModelClass& model_class, Model& model) {
  const bool is_latent = model_class.cache == CacheRule::latent || is_given(text.at("kv_lora_rank"));
  if (model_class.cache == CacheRule::one_key) {
    for (const char* key : {"q_lora_rank", "qk_rope_head_dim"}) text.at(key).accept_all();
    return;
  }
  if (!is_latent) return;
  const auto width = [&](const char* key) { return text.integer(key, {.min = 1, .max = 65536}); };
  model.latent.kv_rank = width("kv_lora_rank");
  model.latent.rope_dim = width("qk_rope_head_dim");
  const Value query_rank = text.at("q_lora_rank");
  model.latent.query_rank = is_given(query_rank) ? query_rank.as_integer({.min = 1, .max = 65536}) : 0;
  const bool has_widths = is_given(text.at("qk_nope_head_dim")) && is_given(text.at("v_head_dim"));
  if (has_widths) {
    model.latent.nope_dim = width("qk_nope_head_dim");
    model.latent.value_dim = width("v_head_dim");
  } else {
    model.weights.is_known = false;
  }
}

}  // namespace

Model read_config(const Value& root, const std::optional<Value>& quant_file, const std::string& name) {
  Model model;
  model.name = name;
  model.source = root.string("_source", "");
  const Value text = language_part(root);
  if (!text.is_map()) {
    text.error("expected a mapping with the fields of a config.json");
    return model;
  }
  const ModelClass* model_class = read_class(root, text);
  if (model_class == nullptr) {
    root.accept_all();
    return model;
  }
  model.model_type = model_class->type;
  accept_harmless_keys(text);
  read_sizes(text, *model_class, model);
  read_traits(text, *model_class, model);
  read_side_inputs(text, *model_class, model);
  read_latent(text, *model_class, model);
  read_experts(text, *model_class, model);
  for (const char* key : {"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"}) {
    const Value extra = text.at(key);
    if (!is_given(extra)) continue;
    model.num_prediction_layers = std::max(model.num_prediction_layers, extra.as_integer({.min = 0, .max = 10'000}));
  }

  if (model.latent.kv_rank > 0) {
    for (const char* key : {"num_key_value_heads", "head_dim"})
      text.at(key).accept_all();  // say nothing about the cache
    model.num_kv_heads = 1;
    model.head_dim = model.latent.kv_rank + model.latent.rope_dim;
    model.v_head_dim = model.latent.kv_rank;
  } else {
    model.num_kv_heads = read_kv_heads(text, *model_class, model.num_query_heads);
    model.head_dim = read_head_dim(text, *model_class, model);
    const Value v_head_dim = text.at("v_head_dim");
    model.v_head_dim = is_given(v_head_dim) ? v_head_dim.as_integer({.min = 1, .max = 65536}) : model.head_dim;
  }
  const PatternContext context{*model_class, model.num_layers, model.num_query_heads, model.num_prediction_layers,
                               model.max_positions};
  set_cache_shape(text, *model_class, read_layer_pattern(text, context), model);

  const bool has_rotary_key = model.latent.rope_dim > 0;
  const Value rotary_key = text.at("qk_rope_head_dim");
  const std::int64_t rotating = has_rotary_key         ? model.latent.rope_dim
                                : is_given(rotary_key) ? rotary_key.as_integer({.min = 1, .max = 65536})
                                                       : model.head_dim;
  const RopePair rope = read_rope(text, *model_class, rotating);
  model.rope = rope.full;
  model.sliding_rope = rope.sliding;
  model.rope_theta = rope.full.theta;
  model.rope_scaling = rope.full.scaling.type;

  Value tied = text.at("tie_word_embeddings");
  if (!is_given(tied)) tied = root.at("tie_word_embeddings");
  model.tied_embeddings = is_given(tied) ? tied.as_bool(false) : model_class->tied;

  std::vector<Value> places{root};
  if (text.path() != root.path()) places.push_back(text);
  if (quant_file) places.push_back(*quant_file);
  model.kv_format = read_kv_format(places);
  model.published_weights = read_published_weights(places, model.num_layers);
  if (const Value published = root.at("_published_weights"); published.exists()) {
    const auto format = weight_format(published.as_choice(weight_format_names(), "bf16"));
    if (format) model.published_weights = {to_string(*format), model.stored_in(*format)};
  }
  text.finish();
  return model;
}

}  // namespace kvtide

#include "model/model.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/data_directory.h"
#include "base/error.h"
#include "config/yaml_value.h"

namespace kvtide {
namespace {

using config::Value;

const std::vector<std::string> kExtensions{".yaml", ".json"};

/// Keys of a config.json that change neither bytes, nor times, nor the parameter count.
constexpr const char* kHarmlessKeys[] = {"architectures",
                                         "attention_dropout",
                                         "bos_token_id",
                                         "eos_token_id",
                                         "pad_token_id",
                                         "hidden_act",
                                         "initializer_range",
                                         "is_llama_config",
                                         "max_window_layers",
                                         "pretraining_tp",
                                         "rms_norm_eps",
                                         "rope_interleaved",
                                         "torch_dtype",
                                         "dtype",
                                         "transformers_version",
                                         "use_cache",
                                         "name",
                                         "transformers.js_config"};

/// Keys whose mere presence (unless null or false) means a cache or a weight shape this reader cannot state exactly.
struct Refusal {
  const char* key;
  const char* meaning;
};
constexpr Refusal kRefusals[] = {
    {"kv_lora_rank", "latent attention (MLA)"},
    {"qk_rope_head_dim", "latent attention (MLA)"},
    {"num_local_experts", "mixture of experts"},
    {"num_experts", "mixture of experts"},
    {"n_routed_experts", "mixture of experts"},
    {"moe_intermediate_size", "mixture of experts"},
    {"attention_chunk_size", "chunked attention"},
    {"attn_type_list", "layers of several kinds"},
    {"sliding_window_pattern", "layers of several kinds"},
    {"_sliding_window_pattern", "layers of several kinds"},
    {"hybrid_layer_pattern", "layers of several kinds"},
    {"compress_ratios", "a cache compressed by design"},
    {"text_config", "a multimodal file with nested language fields"},
    {"multi_query", "Falcon attention"},
    {"num_kv_heads", "Falcon attention"},
    {"n_embd", "GPT-2 field names"},
    {"n_head", "GPT-2 or Falcon field names"},
    {"n_layer", "GPT-2 or Falcon field names"},
    {"partial_rotary_factor", "rotary embedding on part of a head"},
    {"rope_parameters", "rope_parameters of newer files (write rope_theta and rope_scaling)"},
    {"quantization_config", "quantized weights"},
    {"attention_bias", "biases in attention projections"},
    {"mlp_bias", "biases in the MLP"}};

void refuse_unrepresentable(const Value& root) {
  for (const Refusal& refusal : kRefusals) {
    const Value value = root.at(refusal.key);
    value.accept_all();
    if (!value.exists() || value.is_null() || value.text() == "false") continue;
    value.error(
        fmt::format("{} is not available yet (available: dense decoders in which every layer has full attention)",
                    refusal.meaning));
  }
  const Value layer_types = root.at("layer_types");
  if (layer_types.exists() && !layer_types.is_null()) {
    for (const Value& type : layer_types.items()) (void)type.as_choice({"full_attention"});
  }
}

/// A window that is present is used unless it is switched off or no position reaches it.
void refuse_window_in_use(const Value& root, const Model& model, bool class_has_window) {
  const Value window = root.at("sliding_window");
  const Value use = root.at("use_sliding_window");
  const bool is_off = use.exists() && !use.is_null() && !use.as_bool();
  if (!window.exists() || window.is_null()) {
    // transformers' MistralConfig: absent means 4096, null means none.
    if (!window.exists() && class_has_window) {
      root.error("sliding_window is absent, which in this class means 4096; write null for full attention");
    }
    return;
  }
  const std::int64_t length = window.as_integer({.min = 1});
  if (!is_off && length < model.max_positions) {
    window.error(
        fmt::format("sliding windows are not available yet (available: null, use_sliding_window: false, or a window of "
                    "at least max_position_embeddings), got {}",
                    length));
  }
}

std::int64_t read_head_dim(const Value& root, const Model& model) {
  const Value head_dim = root.at("head_dim");
  if (head_dim.exists() && !head_dim.is_null()) return head_dim.as_integer({.min = 1, .max = 65536});
  if (model.hidden_size % model.num_query_heads != 0) {
    root.error(fmt::format("head_dim is absent and hidden_size {} is not a multiple of num_attention_heads {}",
                           model.hidden_size, model.num_query_heads));
    return 1;
  }
  return model.hidden_size / model.num_query_heads;
}

Model read_model(const Value& root, const std::string& name) {
  Model model;
  model.name = name;
  model.source = root.string("_source", "");
  const std::string type = root.choice("model_type", {"llama", "mistral", "qwen2", "qwen3"}, "llama");
  model.has_qkv_bias = type == "qwen2";
  model.has_qk_norm = type == "qwen3";
  // transformers' LlamaConfig defaults: what an absent key of a Llama config.json means.
  const bool is_llama = type == "llama";
  const auto llama_default = [&](std::int64_t value) { return is_llama ? std::optional(value) : std::nullopt; };

  model.num_layers = root.integer("num_hidden_layers", {.min = 1, .max = 10'000});
  model.num_query_heads = root.integer("num_attention_heads", {.min = 1, .max = 65536});
  model.hidden_size = root.integer("hidden_size", {.min = 1, .max = 1 << 24});
  model.intermediate_size =
      root.integer("intermediate_size", {.fallback = llama_default(11008), .min = 1, .max = 1 << 26});
  model.vocab_size = root.integer("vocab_size", {.fallback = llama_default(32000), .min = 1, .max = 1 << 28});

  const Value kv_heads = root.at("num_key_value_heads");
  model.num_kv_heads =
      kv_heads.exists() && !kv_heads.is_null() ? kv_heads.as_integer({.min = 1, .max = 65536}) : model.num_query_heads;
  if (model.num_query_heads % model.num_kv_heads != 0) {
    kv_heads.error(
        fmt::format("expected a divisor of num_attention_heads {}, got {}", model.num_query_heads, model.num_kv_heads));
  }
  model.head_dim = read_head_dim(root, model);

  const Value older_positions = root.at("max_sequence_length");  // Llama-1 files
  const std::int64_t positions_default = older_positions.as_integer({.fallback = 2048, .min = 1});
  model.max_positions =
      root.integer("max_position_embeddings", {.fallback = positions_default, .min = 1, .max = 1 << 30});
  model.rope_theta = root.number("rope_theta", {.fallback = 10000, .min = 1, .max = 1e12});
  const Value scaling = root.at("rope_scaling");
  scaling.accept_all();
  if (scaling.is_map()) {
    model.rope_scaling = scaling.string("rope_type", scaling.string("type", "unnamed"));
  } else if (scaling.exists() && !scaling.is_null()) {
    scaling.error("expected a mapping or null");
  }
  model.tied_embeddings = root.boolean("tie_word_embeddings", false);
  refuse_window_in_use(root, model, type == "mistral");
  return model;
}

}  // namespace

Bytes Model::kv_bytes_per_token() const {
  const auto count = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  const std::uint64_t elements =
      checked_product(checked_product(count(num_layers), count(num_kv_heads), "KV elements a token"), count(head_dim),
                      "KV elements a token");
  return checked_product(elements, 2 * 2, "KV bytes a token");  // K and V, 2 B each
}

std::uint64_t Model::num_parameters() const {
  const auto product = [](std::int64_t a, std::int64_t b) {
    return checked_product(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b), "parameters");
  };
  // Largest configuration that is read: 2^24 wide, 2^26 MLP: 3 * 2^50 a layer, far below 2^64 / 10,000.
  const std::uint64_t query_width = product(num_query_heads, head_dim);
  const std::uint64_t kv_width = product(num_kv_heads, head_dim);
  const auto hidden = static_cast<std::uint64_t>(hidden_size);
  std::uint64_t layer = checked_product(hidden, 2 * query_width + 2 * kv_width, "parameters");  // q, o, k, v
  layer += 3 * product(hidden_size, intermediate_size) + 2 * hidden;                            // gated MLP, two norms
  if (has_qkv_bias) layer += query_width + 2 * kv_width;
  if (has_qk_norm) layer += 2 * static_cast<std::uint64_t>(head_dim);
  const std::uint64_t embeddings = product(vocab_size, hidden_size) * (tied_embeddings ? 1 : 2);
  return checked_product(static_cast<std::uint64_t>(num_layers), layer, "parameters") + embeddings + hidden;
}

Bytes Model::weight_bytes() const {
  return checked_product(num_parameters(), static_cast<std::uint64_t>(weight_bytes_per_parameter), "weight bytes");
}

Model load_model(const std::string& name_or_path) {
  const std::string path = find_data_file("models", name_or_path, kExtensions);
  const config::Document document = config::Document::load(path);
  const Value root = document.root();
  if (root.is_null()) root.error("is empty; expected the fields of a config.json");
  for (const char* key : kHarmlessKeys) root.at(key).accept_all();
  refuse_unrepresentable(root);
  Model model = read_model(root, std::filesystem::path(path).stem().string());
  root.finish();
  document.throw_if_errors();
  if (model.source.empty()) model.source = path;
  return model;
}

std::vector<std::string> known_models() {
  return list_data_files("models", kExtensions);
}

}  // namespace kvtide

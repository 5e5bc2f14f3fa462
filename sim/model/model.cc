#include "model/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/data_directory.h"
#include "base/error.h"
#include "config/yaml_value.h"
#include "model/config_reader.h"

namespace kvtide {
namespace {

const std::vector<std::string> kExtensions{".yaml", ".json"};

/// The quantization file that some checkpoints keep beside their configuration, hf_quant_config.json beside config.json
/// (X_hf_quant_config.json beside X_config.json in collections); nothing where there is none.
std::optional<config::Document> quantization_beside(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  constexpr std::string_view kSuffix = "config.json";
  if (!name.ends_with(kSuffix)) return {};
  const std::filesystem::path beside =
      path.parent_path() / (name.substr(0, name.size() - kSuffix.size()) + "hf_quant_config.json");
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(beside, ignored)) return {};
  return config::Document::load(beside.string());
}

/// "organisation/name", no path of a file.
bool is_repository(const std::string& name) {
  const bool is_file_name = name.ends_with(".json") || name.ends_with(".yaml") || name.ends_with(".yml");
  return std::ranges::count(name, '/') == 1 && name.front() != '/' && name.front() != '.' && !is_file_name;
}

std::string file_of(const std::string& name_or_path) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(name_or_path, ignored)) return name_or_path;
  const std::size_t slash = name_or_path.find('/');
  const std::filesystem::path config = std::filesystem::path(name_or_path) / "config.json";
  if (slash != std::string::npos && std::filesystem::is_regular_file(config, ignored)) return config.string();
  // "models/llama-3.1-8b": a file by its path, without the extension as shipped ones are named.
  for (const std::string& extension : kExtensions) {
    std::string file = name_or_path + extension;
    if (slash != std::string::npos && std::filesystem::is_regular_file(file, ignored)) return file;
  }
  if (!is_repository(name_or_path)) return find_data_file("models", name_or_path, kExtensions);
  // A folder of the organisation's name: the user's own checkpoint is meant, never the shipped one in its place.
  if (const std::string folder = name_or_path.substr(0, slash); std::filesystem::is_directory(folder, ignored)) {
    throw InputError(fmt::format("\"{}\" is neither a file nor a folder with a config.json (a path: {}/ is there)",
                                 name_or_path, folder));
  }
  const std::string shipped = shipped_checkpoint(name_or_path);
  if (const std::string alike = shipped.empty() ? shipped_model(name_or_path) : ""; !alike.empty()) {
    throw InputError(fmt::format(
        "\"{}\" does not ship; {} does, with weights in 16 bits: name that, or the checkpoint's config.json",
        name_or_path, alike));
  }
  return find_data_file("models", shipped.empty() ? name_or_path : shipped, kExtensions);
}

}  // namespace

Bytes Model::kv_bytes_per_token() const {
  return bytes_per_token(layers);
}

Bytes Model::kv_bytes_per_token_growing() const {
  return bytes_per_token_growing(layers);
}

Bytes Model::kv_bytes_per_token_stored() const {
  // Elements are 2 B in kv_bytes_per_token; groups do not cross layers, so the division is exact or refused.
  const Bytes values = kv_bytes_per_token() / 2;
  const auto group = static_cast<Bytes>(kv_format.group_values);
  if (values % group != 0) {
    throw InputError(fmt::format("{} values a token are no whole number of groups of {}", values, group));
  }
  return checked_product(values / group, static_cast<Bytes>(kv_format.group_bytes), "KV bytes a token");
}

std::vector<LayerKind> Model::layers_between(std::int64_t first, std::int64_t last) const {
  if (first < 0 || last < first || last > num_layers) {
    throw InputError(fmt::format("layers {}..{} are not in 0..{}", first, last, num_layers));
  }
  std::vector<LayerKind> part = layers;
  for (LayerKind& layer : part) layer.count = 0;
  for (std::int64_t i = first; i < last; ++i) ++part[kind_of_layer[static_cast<std::size_t>(i)]].count;
  std::erase_if(part, [](const LayerKind& layer) { return layer.count == 0; });
  return part;
}

std::vector<LayerKind> Model::layers_of_rank(std::int64_t num_ranks) const {
  if (num_ranks < 1) throw InputError(fmt::format("expected at least 1 tensor-parallel rank, got {}", num_ranks));
  std::vector<LayerKind> part = layers;
  for (LayerKind& layer : part) {
    if (layer.is_latent || layer.k_bytes == 0) continue;
    const std::int64_t heads = layer.num_kv_heads;
    if (heads % num_ranks != 0 && num_ranks % heads != 0) {
      throw InputError(fmt::format("{} tensor-parallel ranks neither divide {} KV heads nor are a multiple of them",
                                   num_ranks, heads));
    }
    const auto share = static_cast<Bytes>(std::min(heads, num_ranks));
    layer.k_bytes /= share;
    layer.v_bytes /= share;
    layer.num_kv_heads /= static_cast<std::int64_t>(share);
  }
  return part;
}

std::string Model::unsupported_reason() const {
  for (const LayerKind& layer : layers) {
    switch (layer.kind) {
      case AttentionKind::full_attention:
      case AttentionKind::sliding_attention:
      case AttentionKind::chunked_attention:
      case AttentionKind::shared_attention:
        break;
      case AttentionKind::linear_attention:
        if (state_elements == 0) return "linear_attention layers with a state of unknown size";
        break;
      case AttentionKind::compressed_attention:
      case AttentionKind::no_attention:
        return fmt::format("{} layers", to_string(layer.kind));
    }
    if (layer.index_bytes > 0) return "sparse attention with an indexer";
    if (!layer.is_latent && layer.k_bytes != layer.v_bytes) {
      return fmt::format("keys of {} beside values of {} bytes a token", layer.k_bytes, layer.v_bytes);
    }
  }
  if (!published_weights.storage) return fmt::format("weights in a format not known here ({})", published_weights.name);
  if (kv_format.name != "16 bit") return fmt::format("a checkpoint with a {} KV cache", kv_format.name);
  if (!weights.is_known) return fmt::format("weights of class {}, which are not counted", model_type);
  return "";
}

Model load_model(const std::string& name_or_path) {
  const std::string path = file_of(name_or_path);
  const config::Document document = config::Document::load(path);
  const std::optional<config::Document> quantization = quantization_beside(path);
  const config::Value root = document.root();
  if (root.is_null()) root.error("is empty; expected the fields of a config.json");
  document.throw_if_errors();
  const auto quant_root = quantization ? std::optional(quantization->root()) : std::nullopt;
  Model model = read_config(root, quant_root, std::filesystem::path(path).stem().string());
  document.throw_if_errors();
  if (quantization) quantization->throw_if_errors();
  if (model.source.empty()) model.source = path;
  return model;
}

std::vector<std::string> known_models() {
  return list_data_files("models", kExtensions);
}

}  // namespace kvtide

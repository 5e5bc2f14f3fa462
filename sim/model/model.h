#pragma once
// The served LLM's geometry, with the field names of a Hugging Face config.json.
// Example: Llama-3.1-8B, 32 layers, 8 KV heads, head_dim 128, 2 B -> 2 * 32 * 8 * 128 * 2 = 131,072 B a token.

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"

namespace kvtide {

struct Model {
  std::string name;
  std::string source;  ///< where the numbers were read
  std::int64_t num_layers = 0;
  std::int64_t num_query_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_positions = 0;
  double rope_theta = 0;
  std::string rope_scaling = "none";  ///< its rope_type; bytes and times do not depend on it
  bool tied_embeddings = false;
  bool has_qkv_bias = false;  ///< Qwen2 family
  bool has_qk_norm = false;   ///< Qwen3 family: one norm of head_dim for queries, one for keys
  std::int64_t weight_bytes_per_parameter = 2;

  /// 2 * layers * kv_heads * head_dim * 2 B (K and V in fp16). @throws InputError beyond 64 bits
  [[nodiscard]] Bytes kv_bytes_per_token() const;
  /// Dense decoder with gated MLP: attention, three MLP matrices, two norms a layer, embeddings (twice unless tied),
  /// final norm. @throws InputError beyond 64 bits
  [[nodiscard]] std::uint64_t num_parameters() const;
  [[nodiscard]] Bytes weight_bytes() const;
};

/// A name from models/ or a path to a config.json / model YAML. @throws InputError with file, line and key
[[nodiscard]] Model load_model(const std::string& name_or_path);
/// Names of the models that ship, sorted.
[[nodiscard]] std::vector<std::string> known_models();

}  // namespace kvtide

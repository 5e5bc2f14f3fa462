#pragma once
// The served LLM's geometry, read from any Hugging Face config.json.
// Example: Llama-3.1-8B, 32 layers, 8 KV heads, head_dim 128, 2 B -> 2 * 32 * 8 * 128 * 2 = 131,072 B a token.

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "model/layer_kind.h"
#include "model/rope.h"
#include "model/weight_storage.h"

namespace kvtide {

/// Mixture of experts; num_experts 0: every layer has a dense MLP.
struct Experts {
  std::int64_t num_experts = 0;               ///< routed, per layer
  std::int64_t num_active = 0;                ///< routed experts a token visits
  std::int64_t intermediate_size = 0;         ///< of one routed expert
  std::int64_t shared_intermediate_size = 0;  ///< of all shared experts together
  std::int64_t num_layers = 0;                ///< layers with experts; the others have the dense MLP
};

/// Latent attention (MLA): K and V are expanded from one cached vector; kv_rank 0: ordinary heads.
struct LatentAttention {
  std::int64_t query_rank = 0;  ///< 0: queries are projected directly
  std::int64_t kv_rank = 0;     ///< the cached latent
  std::int64_t rope_dim = 0;    ///< the cached rotary key beside it
  std::int64_t nope_dim = 0;    ///< K channels of a head that are expanded from the latent
  std::int64_t value_dim = 0;   ///< V channels of a head
};

/// How a checkpoint says its KV cache is stored.
struct KvFormat {
  std::string name = "16 bit";  ///< 16 bit | fp8 | int8 | nvfp4
  std::int64_t group_values = 1;
  std::int64_t group_bytes = 2;  ///< of `group_values` values, scales of the group included
};

/// Weight shapes beside the projections.
struct WeightTraits {
  bool is_known = true;                  ///< false: this class's weights are not counted
  bool has_gated_mlp = true;             ///< three matrices, else two
  bool has_mlp_bias = false;             ///< in dense MLPs and experts
  bool has_output_bias = false;          ///< of the attention's last projection
  bool has_norm_bias = false;            ///< LayerNorm with bias
  bool has_wide_qk_norm = false;         ///< query and key norms as wide as all heads together
  bool has_router_bias = false;          ///< one value an expert
  bool has_sink_logits = false;          ///< one learned logit a query head
  bool has_position_embeddings = false;  ///< a learned vector a position
  std::int64_t num_norms_per_layer = 2;  ///< of hidden_size
};

/// What Gemma-3n adds to a decoder (transformers 4.57.1, Gemma3nTextModel); all 0: nothing.
struct SideInputs {
  std::int64_t width = 0;        ///< a layer's own embedding of a token; looked up, never read whole
  std::int64_t vocab_size = 0;   ///< of those embeddings
  std::int64_t num_streams = 0;  ///< parallel residual streams (AltUp, arXiv 2301.13310)
  std::int64_t laurel_rank = 0;  ///< of the learned augmented residual (arXiv 2411.07501)
};

struct Model {
  std::string name;
  std::string source;  ///< where the numbers were read
  std::string model_type;
  std::int64_t num_layers = 0;
  std::int64_t num_query_heads = 0;
  std::int64_t num_kv_heads = 0;  ///< stored heads of a full layer; 1 for latent attention
  std::int64_t head_dim = 0;      ///< stored K channels of a head in a full layer (latent attention: latent + rotary)
  std::int64_t v_head_dim = 0;    ///< V channels of a head; latent attention: of the view into the latent
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_positions = 0;
  double rope_theta = 0;              ///< of full layers; 0: no rotation
  std::string rope_scaling = "none";  ///< its type; `rope` has the rest
  bool tied_embeddings = false;
  bool has_qkv_bias = false;  ///< Qwen2 family
  bool has_qk_norm = false;   ///< Qwen3 family: one norm of head_dim for queries, one for keys
  PublishedWeights published_weights;

  Rope rope;          ///< of full layers
  Rope sliding_rope;  ///< of sliding layers, where they differ
  Experts experts;
  LatentAttention latent;
  KvFormat kv_format;
  WeightTraits weights;
  SideInputs side_inputs;
  std::int64_t num_prediction_layers = 0;  ///< next-token-prediction layers of speculative decoding; counted nowhere
  std::int64_t state_elements = 0;         ///< constant state of one linear layer and sequence; 0: none or unknown
  std::vector<LayerKind> layers;           ///< in order of first appearance
  std::vector<std::size_t> kind_of_layer;  ///< [layer] index into `layers`

  /// Every attention layer as if it kept the whole context, 16-bit elements. @throws InputError beyond 64 bits
  [[nodiscard]] Bytes kv_bytes_per_token() const;
  /// What a token adds beyond every window. @throws InputError beyond 64 bits
  [[nodiscard]] Bytes kv_bytes_per_token_growing() const;
  /// kv_bytes_per_token in the stored format: fp8 halves it. @throws InputError beyond 64 bits
  [[nodiscard]] Bytes kv_bytes_per_token_stored() const;
  /// The layers of first..last-1, counted anew (a pipeline stage). @throws InputError when the range is not in 0..num_layers
  [[nodiscard]] std::vector<LayerKind> layers_between(std::int64_t first, std::int64_t last) const;
  /// What one of `num_ranks` tensor-parallel ranks stores: KV heads are divided, and repeated where ranks outnumber
  /// them; a latent vector is repeated on every rank.
  /// Example: 48 layers, 4 KV heads of 128: 24,576 B a token at 4, 8 and 16 ranks.
  /// @throws InputError when heads and ranks do not divide one another
  [[nodiscard]] std::vector<LayerKind> layers_of_rank(std::int64_t num_ranks) const;

  /// Language model alone, prediction layers excluded. @throws InputError beyond 64 bits or for a class whose weights
  /// are not counted
  [[nodiscard]] std::uint64_t num_parameters() const;
  /// Those that one token visits, embeddings included. @throws as num_parameters
  [[nodiscard]] std::uint64_t num_active_parameters() const;
  [[nodiscard]] Bytes weight_bytes(const WeightStorage& storage = {}) const;
  /// What checkpoints of this model keep where their linear layers are so stored: under mxfp4 experts are, attention is not.
  [[nodiscard]] WeightStorage stored_in(WeightFormat format) const;

  /// What keeps the simulator from running this model ("sliding windows ..."); empty: nothing. Its bytes are exact
  /// either way.
  [[nodiscard]] std::string unsupported_reason() const;
};

/// A name from models/ (in any case), the Hugging Face id of such a model (shipped_checkpoint()), a path to a config.json /
/// model YAML or to a folder with a config.json. "a/b" where a folder a exists is a path, no id. A hf_quant_config.json beside a file
/// called config.json is read with it. @throws InputError with file, line and key
[[nodiscard]] Model load_model(const std::string& name_or_path);
/// Names of the models that ship, sorted.
[[nodiscard]] std::vector<std::string> known_models();
/// The shipped model of a checkpoint's shape, else empty: its name but for organisation, case, "Instruct" and the like, a version and the
/// format of the weights. Examples: Qwen/Qwen2.5-7B-Instruct-AWQ -> qwen2.5-7b; deepseek-ai/DeepSeek-V2-Lite -> "".
[[nodiscard]] std::string shipped_model(const std::string& name);
/// The same where the weights' format is the shipped model's too. Examples: Qwen/Qwen2.5-7B-Instruct -> qwen2.5-7b;
/// Qwen/Qwen2.5-7B-Instruct-AWQ -> "".
[[nodiscard]] std::string shipped_checkpoint(const std::string& id);

}  // namespace kvtide

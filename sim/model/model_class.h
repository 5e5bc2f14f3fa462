#pragma once
// What a config.json leaves to its class (`model_type`): the value of an absent key, and rules that no key states.
// Absent is not null: an absent sliding_window takes the class's value, null switches it off.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvtide {

/// Which layers have the window when neither layer_types nor another key lists them.
enum class WindowRule : std::uint8_t {
  no_layer,  ///< the class knows no window: one in the file is an error
  every_layer,
  even_layers,             ///< index 0, 2, ...
  all_but_every_nth,       ///< full when (index + 1) mod n = 0; n from sliding_window_pattern or `nth_is_full`
  from_max_window_layers,  ///< index >= max_window_layers, and only with use_sliding_window: true
};

enum class CacheRule : std::uint8_t {
  heads,    ///< K and V of num_key_value_heads
  latent,   ///< kv_lora_rank + qk_rope_head_dim, once
  one_key,  ///< one vector of head_dim that serves as K and V, per compress_ratios
};

/// ModelClass::theta where the class's default is not known: an absent rope_theta stays unknown.
inline constexpr double kUnstated = -1;

// In the order a reader wants; a table of a few dozen. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct ModelClass {
  std::string_view type;
  // Values of absent keys. 0: no default, see each.
  std::int64_t query_heads = 0;   ///< 0: required
  std::int64_t kv_heads = 0;      ///< 0: as many as query heads
  std::int64_t head_dim = 0;      ///< 0: hidden_size / query heads
  std::int64_t intermediate = 0;  ///< 0: required where weights are counted
  std::int64_t vocab = 0;         ///< 0: required where weights are counted
  std::int64_t positions = 0;     ///< 0: required
  double theta = 10000;           ///< 0: no rotation; or kUnstated
  bool tied = false;
  std::int64_t window = 0;  ///< 0: none
  WindowRule window_rule = WindowRule::no_layer;
  std::int64_t nth_is_full = 0;
  bool must_list = false;  ///< layers differ and no rule is known: the file has to list them
  CacheRule cache = CacheRule::heads;
  // Weights, for num_parameters. `counted` false: shapes of this class are not known here.
  bool counted = false;
  bool gated = true;
  std::int64_t norms = 2;
  bool norm_bias = false;
  bool qkv_bias = false;            ///< where attention_bias is absent
  bool output_bias = false;         ///< where attention_bias is absent
  bool bias_spares_output = false;  ///< attention_bias: true concerns queries, keys and values alone
  bool qk_norm = false;
  bool router_bias = false;
};

/// @return nullptr for an unknown type
[[nodiscard]] const ModelClass* find_model_class(std::string_view type);
[[nodiscard]] std::vector<std::string> known_model_classes();

}  // namespace kvtide

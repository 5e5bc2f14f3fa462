#pragma once
// What one layer of a model keeps per token, and layers that keep the same counted together.
//
// Example: Gemma-3-4B has 5 full layers and 29 with a window of 1,024; each stores K and V of 4 heads * 256 * 2 B =
// 2,048 B. 34 * 4,096 = 139,264 B a token if every layer kept everything; beyond the window a token adds 5 * 4,096 =
// 20,480 B and the windows hold a constant 29 * 1,024 * 4,096 B = 116 MiB.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace kvtide {

/// Spelled as in the `layer_types` of a config.json, where it has a word for it.
enum class AttentionKind : std::uint8_t {
  full_attention,        ///< every earlier position
  sliding_attention,     ///< the last `window` positions, the current one included
  chunked_attention,     ///< positions of the current chunk of `window`
  compressed_attention,  ///< one entry per `compress_ratio` positions, beside the last `window` raw ones
  linear_attention,      ///< a state of constant size (linear attention, state space, convolution)
  shared_attention,      ///< reads the cache of an earlier layer, stores nothing
  no_attention,          ///< an MLP or nothing
};

[[nodiscard]] std::string_view to_string(AttentionKind kind);
/// Every enumerator once, in order.
[[nodiscard]] const std::vector<AttentionKind>& attention_kinds();

/// Layers that store the same thing. Bytes are for 16-bit elements, without padding or quantization metadata.
struct LayerKind {
  AttentionKind kind = AttentionKind::full_attention;
  std::int64_t count = 0;           ///< layers
  Bytes k_bytes = 0;                ///< a token and layer; compressed_attention: an entry and layer
  Bytes v_bytes = 0;                ///< 0 where the value is a view of what k_bytes counts (latent attention)
  std::int64_t window = 0;          ///< positions; 0: unlimited
  std::int64_t compress_ratio = 1;  ///< positions an entry stands for
  Bytes index_bytes = 0;          ///< key of a sparse-attention indexer, an entry and layer; in none of the sums below
  std::int64_t num_kv_heads = 0;  ///< stored heads; 0 where nothing is stored
  bool is_latent = false;         ///< K and V are one vector that is the same for every head

  /// Is what it stores per token bounded whatever the context?
  [[nodiscard]] bool is_bounded() const;
  /// Same storage, whatever the count?
  [[nodiscard]] bool stores_like(const LayerKind& other) const;
};

/// Bytes a token adds when every attention layer keeps the whole context. @throws InputError beyond 64 bits
[[nodiscard]] Bytes bytes_per_token(const std::vector<LayerKind>& layers);
/// Bytes a token adds once the context exceeds every window. @throws InputError beyond 64 bits
[[nodiscard]] Bytes bytes_per_token_growing(const std::vector<LayerKind>& layers);
/// What the windows hold once the context exceeds them; constant. @throws InputError beyond 64 bits
[[nodiscard]] Bytes window_cap_bytes(const std::vector<LayerKind>& layers);
/// Cache of a sequence of `num_tokens`: windows cut, compressed entries rounded down.
/// Example (10 full layers, 50 with a window of 1,024, 4,096 B each): 128 tokens -> 30 MiB; 65,536 -> 2.70 GiB.
/// @param num_tokens  >= 0  @throws InputError beyond 64 bits
[[nodiscard]] Bytes cache_bytes(const std::vector<LayerKind>& layers, std::int64_t num_tokens);

/// Most pages that one sequence holds in a layer with a window: the window without the current token plus what one step
/// appends, never more than the sequence, and one more because the window's start is not aligned to a page.
/// Without a window: ceil(sequence_tokens / page_size).
/// Example: window 4,096, step of 8,192, sequence of 16,384, pages of 16: ceil(12,287 / 16) + 1 = 769.
/// @param window  0: none  @param step_tokens  tokens appended at once, >= 1
[[nodiscard]] std::int64_t most_pages_held(std::int64_t window, std::int64_t step_tokens, std::int64_t sequence_tokens,
                                           std::int64_t page_size);

}  // namespace kvtide

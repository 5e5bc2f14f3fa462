#include "model/layer_kind.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace kvtide {
namespace {

struct Named {
  AttentionKind kind;
  std::string_view name;
};
constexpr std::array<Named, 7> kNames{{{AttentionKind::full_attention, "full_attention"},
                                       {AttentionKind::sliding_attention, "sliding_attention"},
                                       {AttentionKind::chunked_attention, "chunked_attention"},
                                       {AttentionKind::compressed_attention, "compressed_attention"},
                                       {AttentionKind::linear_attention, "linear_attention"},
                                       {AttentionKind::shared_attention, "shared_attention"},
                                       {AttentionKind::no_attention, "no_attention"}}};

std::uint64_t unsigned_of(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

/// a + b, or InputError beyond 64 bits.
Bytes checked_sum(Bytes a, Bytes b) {
  if (a > UINT64_MAX - b) throw InputError("KV bytes exceed 64 bits");
  return a + b;
}

/// K and V of one token (or entry) over all layers of the kind.
Bytes stored(const LayerKind& layer) {
  return checked_product(unsigned_of(layer.count), checked_sum(layer.k_bytes, layer.v_bytes), "KV bytes a token");
}

bool has_cut(const LayerKind& layer) {
  return layer.kind == AttentionKind::sliding_attention || layer.kind == AttentionKind::chunked_attention;
}

}  // namespace

std::string_view to_string(AttentionKind kind) {
  return std::ranges::find(kNames, kind, &Named::kind)->name;
}

const std::vector<AttentionKind>& attention_kinds() {
  static const std::vector<AttentionKind> kinds = [] {
    std::vector<AttentionKind> all;
    all.reserve(kNames.size());
    for (const Named& named : kNames) all.push_back(named.kind);
    return all;
  }();
  return kinds;
}

bool LayerKind::is_bounded() const {
  return has_cut(*this) || k_bytes + v_bytes == 0;
}

bool LayerKind::stores_like(const LayerKind& other) const {
  return kind == other.kind && k_bytes == other.k_bytes && v_bytes == other.v_bytes && window == other.window &&
         compress_ratio == other.compress_ratio && index_bytes == other.index_bytes &&
         num_kv_heads == other.num_kv_heads && is_latent == other.is_latent;
}

Bytes bytes_per_token(const std::vector<LayerKind>& layers) {
  Bytes sum = 0;
  for (const LayerKind& layer : layers) sum = checked_sum(sum, stored(layer) / unsigned_of(layer.compress_ratio));
  return sum;
}

Bytes bytes_per_token_growing(const std::vector<LayerKind>& layers) {
  Bytes sum = 0;
  for (const LayerKind& layer : layers) {
    if (!has_cut(layer)) sum = checked_sum(sum, stored(layer) / unsigned_of(layer.compress_ratio));
  }
  return sum;
}

Bytes window_cap_bytes(const std::vector<LayerKind>& layers) {
  Bytes sum = 0;
  for (const LayerKind& layer : layers) {
    sum = checked_sum(sum, checked_product(stored(layer), unsigned_of(layer.window), "KV bytes of the windows"));
  }
  return sum;
}

Bytes cache_bytes(const std::vector<LayerKind>& layers, std::int64_t num_tokens) {
  Bytes sum = 0;
  for (const LayerKind& layer : layers) {
    std::int64_t entries = layer.window > 0 ? std::min(num_tokens, layer.window) : num_tokens;
    if (layer.kind == AttentionKind::compressed_attention) entries += num_tokens / layer.compress_ratio;
    sum = checked_sum(sum, checked_product(stored(layer), unsigned_of(entries), "KV bytes of a sequence"));
  }
  return sum;
}

std::int64_t most_pages_held(std::int64_t window, std::int64_t step_tokens, std::int64_t sequence_tokens,
                             std::int64_t page_size) {
  if (window == 0) return ceil_div(sequence_tokens, page_size);
  return ceil_div(std::min(window - 1 + step_tokens, sequence_tokens), page_size) + 1;
}

}  // namespace kvtide

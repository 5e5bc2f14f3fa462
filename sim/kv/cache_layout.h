#pragma once
// Bytes of a layer in pages, under the two layouts paged caches use.
//
// per_head: every KV head packs its own entries, so half of the entries is half of the pages.
// shared: one page table for all heads, a page covers page_size consecutive entries at their original place and is
// freed only when every head dropped all of it; heads that dropped it alone still pay.
//
// Example: 2 heads, 32 positions, page_size 16; head 0 keeps 0..15, head 1 keeps 16..31.
// per_head: 1 page each, 2 head-pages. shared: both pages stay for both heads, 4 head-pages: nothing saved.

#include <cstdint>

#include "kv/head_cache.h"

namespace kvtide::kv {

enum class CacheLayout : std::uint8_t { per_head, shared };

struct LayerBytes {
  Bytes total = 0;             ///< payload in whole pages, plus metadata
  Bytes metadata = 0;          ///< of it: scales, zero points, bases
  std::int64_t num_pages = 0;  ///< K and V pages of all heads
};

/// Pools of every head of the layer as the machine reads them: under `shared` also the pages that only other heads
/// need.
/// @return [kv_head]
[[nodiscard]] std::vector<HeadPools> layer_pools(const LayerCache& layer, std::int64_t page_size, CacheLayout layout);

[[nodiscard]] LayerBytes layer_bytes(const std::vector<HeadPools>& pools);

}  // namespace kvtide::kv

#include "kv/head_cache.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace kvtide::kv {
namespace {

void add_to_pool(std::vector<PagePool>& pools, const StoredForm& form, std::int64_t num_entries, Bytes metadata) {
  auto pool = std::ranges::find(pools, form, &PagePool::form);
  if (pool == pools.end()) {
    pools.push_back({.form = form});
    pool = std::prev(pools.end());
  }
  pool->num_entries += num_entries;
  pool->metadata_bytes += metadata;
}

void round_to_pages(std::vector<PagePool>& pools, std::int64_t page_size) {
  for (PagePool& pool : pools) {
    pool.num_pages = ceil_div(pool.num_entries, page_size);
    const Bytes rows = checked_product(static_cast<Bytes>(pool.num_pages), static_cast<Bytes>(page_size), "KV pages");
    pool.payload_bytes = checked_product(rows, pool.form.entry_bytes(), "KV pages");
  }
}

}  // namespace

std::string StoredForm::name() const {
  const std::string element(codec.empty() ? "fp16" : codec);
  return kind == Kind::low_rank ? fmt::format("rank{}/{}", columns, element) : element;
}

HeadPools packed_pools(const HeadCache& head, std::int64_t page_size) {
  KVTIDE_ASSERT(page_size >= 1, "page_size is checked before");
  HeadPools pools;
  for (const auto* stored : {&head.segments, &head.copies, &head.unread}) {
    for (const Segment& segment : *stored) {
      add_to_pool(pools.k, segment.k_form, segment.num_entries, segment.k_metadata);
      add_to_pool(pools.v, segment.v_form, segment.num_entries, segment.v_metadata);
    }
  }
  round_to_pages(pools.k, page_size);
  round_to_pages(pools.v, page_size);
  return pools;
}

}  // namespace kvtide::kv

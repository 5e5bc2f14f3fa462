#include "kv/cache_layout.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace kvtide::kv {
namespace {

/// A page of the table that all heads of a layer share: page_size entries of one form at a fixed place of the sequence.
struct SharedPage {
  StoredForm k_form;
  StoredForm v_form;
  std::int64_t positions_per_page = 0;
  std::int64_t index = 0;

  [[nodiscard]] auto key() const {
    const auto form_key = [](const StoredForm& form) { return std::tuple(form.kind, form.bits, form.columns); };
    return std::tuple(form_key(k_form), form_key(v_form), positions_per_page, index);
  }
  bool operator==(const SharedPage& other) const { return key() == other.key(); }
  bool operator<(const SharedPage& other) const { return key() < other.key(); }
};

std::vector<SharedPage> shared_pages(const LayerCache& layer, std::int64_t page_size) {
  std::vector<SharedPage> pages;
  for (const HeadCache& head : layer.heads) {
    for (const Segment& segment : head.segments) {
      if (segment.num_entries == 0) continue;
      const std::int64_t positions_per_page = page_size * ceil_div(segment.end - segment.begin, segment.num_entries);
      for (std::int64_t index = segment.begin / positions_per_page; index * positions_per_page < segment.end; ++index) {
        const SharedPage page{segment.k_form, segment.v_form, positions_per_page, index};
        if (pages.empty() || !(pages.back() == page)) pages.push_back(page);
      }
    }
  }
  std::ranges::sort(pages);
  pages.erase(std::unique(pages.begin(), pages.end()), pages.end());
  return pages;
}

}  // namespace

std::vector<PagedBytes> head_pools(const LayerCache& layer, std::size_t head_index, std::int64_t page_size,
                                   CacheLayout layout) {
  std::vector<PagedBytes> pools = paged_bytes(layer.heads[head_index], page_size);
  if (layout == CacheLayout::per_head) return pools;
  // Same metadata and live entries; the pages are those of the shared table, whoever needs them.
  std::vector<PagedBytes> k_pools;
  std::vector<PagedBytes> v_pools;
  const auto count_page = [&](std::vector<PagedBytes>& own, const StoredForm& form) {
    auto pool = std::ranges::find(own, form, &PagedBytes::form);
    if (pool == own.end()) {
      own.push_back({.form = form});
      pool = std::prev(own.end());
    }
    pool->num_pages += 1;
    pool->payload_bytes += static_cast<Bytes>(page_size) * form.entry_bytes();
  };
  for (const SharedPage& page : shared_pages(layer, page_size)) {
    count_page(k_pools, page.k_form);
    count_page(v_pools, page.v_form);
  }
  // K pools precede V pools in both lists; a head that dropped a whole form has no pool of it to copy from.
  std::int64_t k_entries = 0;
  for (const Segment& segment : layer.heads[head_index].segments) k_entries += segment.num_entries;
  std::int64_t seen = 0;
  for (const PagedBytes& pool : pools) {
    std::vector<PagedBytes>& own = seen < k_entries ? k_pools : v_pools;
    seen += pool.num_entries;
    const auto target = std::ranges::find(own, pool.form, &PagedBytes::form);
    KVTIDE_ASSERT(target != own.end(), "a stored entry without a page");
    target->num_entries = pool.num_entries;
    target->metadata_bytes = pool.metadata_bytes;
  }
  k_pools.insert(k_pools.end(), v_pools.begin(), v_pools.end());
  return k_pools;
}

LayerBytes layer_bytes(const LayerCache& layer, std::int64_t page_size, CacheLayout layout) {
  LayerBytes sum;
  for (std::size_t head_index = 0; head_index < layer.heads.size(); ++head_index) {
    for (const PagedBytes& pool : head_pools(layer, head_index, page_size, layout)) {
      sum.total += pool.payload_bytes + pool.metadata_bytes;
      sum.metadata += pool.metadata_bytes;
      sum.num_pages += pool.num_pages;
    }
  }
  return sum;
}

}  // namespace kvtide::kv

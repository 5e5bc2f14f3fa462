#include "kv/cache_layout.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace kvtide::kv {
namespace {

/// A page of the table that all heads of a layer share: page_size entries of one form at a fixed place of the sequence.
struct SharedPage {
  StoredForm k_form;
  StoredForm v_form;
  std::int64_t positions_per_page = 0;
  std::int64_t index = 0;
  bool is_copy = false;

  [[nodiscard]] auto key() const {
    // All of a form, as its equality: forms that a pool tells apart never share a page.
    const auto form_key = [](const StoredForm& form) {
      return std::tuple(form.kind, form.bits, form.columns, form.codec, form.row_bytes, form.rank, form.layers);
    };
    return std::tuple(form_key(k_form), form_key(v_form), positions_per_page, index, is_copy);
  }
  bool operator==(const SharedPage& other) const { return key() == other.key(); }
};

std::vector<SharedPage> shared_pages(const LayerCache& layer, std::int64_t page_size) {
  std::vector<SharedPage> pages;
  for (const HeadCache& head : layer.heads) {
    const auto add = [&](const Segment& segment, bool is_copy) {
      if (segment.num_entries == 0) return;
      const std::int64_t positions_per_page = page_size * ceil_div(segment.end - segment.begin, segment.num_entries);
      for (std::int64_t index = segment.begin / positions_per_page; index * positions_per_page < segment.end; ++index) {
        const SharedPage page{segment.k_form, segment.v_form, positions_per_page, index, is_copy};
        if (pages.empty() || !(pages.back() == page)) pages.push_back(page);
      }
    };
    for (const Segment& segment : head.segments) add(segment, false);
    for (const Segment& unread : head.unread) add(unread, false);
    for (const Segment& copy : head.copies) add(copy, true);
  }
  std::ranges::sort(pages, {}, &SharedPage::key);
  pages.erase(std::unique(pages.begin(), pages.end()), pages.end());
  return pages;
}

/// The shared table's pages as pools without entries.
HeadPools empty_pools(const std::vector<SharedPage>& pages, std::int64_t page_size) {
  HeadPools pools;
  const auto count_page = [page_size](std::vector<PagePool>& of_tensor, const StoredForm& form) {
    auto pool = std::ranges::find(of_tensor, form, &PagePool::form);
    if (pool == of_tensor.end()) {
      of_tensor.push_back({.form = form});
      pool = std::prev(of_tensor.end());
    }
    pool->num_pages += 1;
    pool->payload_bytes += static_cast<Bytes>(page_size) * form.entry_bytes();
  };
  for (const SharedPage& page : pages) {
    count_page(pools.k, page.k_form);
    count_page(pools.v, page.v_form);
  }
  return pools;
}

void fill(std::vector<PagePool>& shared, const std::vector<PagePool>& packed) {
  for (const PagePool& own : packed) {
    const auto pool = std::ranges::find(shared, own.form, &PagePool::form);
    KVTIDE_ASSERT(pool != shared.end(), "a stored entry without a page");
    pool->num_entries = own.num_entries;
    pool->metadata_bytes = own.metadata_bytes;
  }
}

}  // namespace

std::vector<HeadPools> layer_pools(const LayerCache& layer, std::int64_t page_size, CacheLayout layout) {
  std::vector<HeadPools> pools;
  for (const HeadCache& head : layer.heads) pools.push_back(packed_pools(head, page_size));
  if (layout == CacheLayout::per_head) return pools;
  const HeadPools table = empty_pools(shared_pages(layer, page_size), page_size);
  for (HeadPools& of_head : pools) {
    const HeadPools packed = std::exchange(of_head, table);
    fill(of_head.k, packed.k);
    fill(of_head.v, packed.v);
  }
  return pools;
}

LayerBytes layer_bytes(const std::vector<HeadPools>& pools) {
  LayerBytes sum;
  for (const HeadPools& of_head : pools) {
    for (const auto* of_tensor : {&of_head.k, &of_head.v}) {
      for (const PagePool& pool : *of_tensor) {
        sum.total += pool.payload_bytes + pool.metadata_bytes;
        sum.metadata += pool.metadata_bytes;
        sum.num_pages += pool.num_pages;
      }
    }
  }
  return sum;
}

}  // namespace kvtide::kv

#pragma once
// Paged device memory for KV entries (Kwon et al., PagedAttention, arXiv 2309.06180): fixed-size pages handed to
// owners, one page table per owner. An owner is whatever has its own pages: a sequence, or one (layer, KV head, stored
// form) of it.
//
// Pages in use are not tokens in use: 17 tokens at page_size 16 hold 2 pages, 17 / 32 = 53.125 % of their slots.

#include <cstdint>
#include <map>
#include <vector>

#include "base/units.h"

namespace kvtide::gpu {

using OwnerId = std::int64_t;
using PageIndex = std::int64_t;

/// Pages a request holds at its end. The last output token is sampled, never fed back, so it needs no entry.
/// Example: prompt 2,048, page_size 64: 1 output -> 32 pages; 2 outputs -> 33.
/// @param prompt_tokens, output_tokens  >= 0; page_size >= 1
[[nodiscard]] std::int64_t pages_of_request(std::int64_t prompt_tokens, std::int64_t output_tokens,
                                            std::int64_t page_size);

/// Whole pages in `memory` bytes. @param page_bytes > 0
[[nodiscard]] std::int64_t page_capacity(Bytes memory, Bytes page_bytes);

/// Deterministic: a freed page is reused first, the last freed first; else the lowest page never used.
/// Invariant: pages_in_use() + free_pages() == num_pages(), and no page has two owners.
class PageAllocator {
 public:
  /// Memory is taken only for pages in use. @throws InputError unless num_pages >= 0 and page_size >= 1
  PageAllocator(std::int64_t num_pages, std::int64_t page_size);

  /// Gives `owner` exactly the pages that `num_entries` need: more are allocated, or the newest returned.
  /// @param num_entries  >= 0; 0 keeps the owner known, without pages
  /// @return false, and nothing has changed, when there are not enough free pages
  /// @throws InputError on a negative count
  [[nodiscard]] bool resize(OwnerId owner, std::int64_t num_entries);

  /// Returns all pages of an owner; unknown owners have none. @return pages returned
  std::int64_t release(OwnerId owner);

  /// In the order of the entries; empty for an unknown owner. Valid until the owner changes.
  [[nodiscard]] const std::vector<PageIndex>& pages(OwnerId owner) const;

  [[nodiscard]] std::int64_t num_pages() const { return num_pages_; }
  [[nodiscard]] std::int64_t page_size() const { return page_size_; }
  [[nodiscard]] std::int64_t pages_in_use() const { return pages_in_use_; }
  [[nodiscard]] std::int64_t free_pages() const { return num_pages_ - pages_in_use_; }
  [[nodiscard]] std::int64_t peak_pages() const { return peak_pages_; }
  [[nodiscard]] std::int64_t entries_in_use() const { return entries_in_use_; }
  /// Pages in use / pages; 0 without pages.
  [[nodiscard]] double page_use() const;
  /// Entries / slots of the pages in use, at most 1; 1 when no page is in use.
  [[nodiscard]] double entry_use() const;

 private:
  struct Owner {
    std::int64_t num_entries = 0;
    std::vector<PageIndex> pages;
  };

  std::int64_t num_pages_;
  std::int64_t page_size_;
  std::int64_t pages_in_use_ = 0;
  std::int64_t peak_pages_ = 0;
  std::int64_t entries_in_use_ = 0;
  PageIndex first_never_used_ = 0;
  std::vector<PageIndex> returned_;
  std::map<OwnerId, Owner> owners_;
};

}  // namespace kvtide::gpu

#include "gpu/page_allocator.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace kvtide::gpu {

std::int64_t pages_of_request(std::int64_t prompt_tokens, std::int64_t output_tokens, std::int64_t page_size) {
  return ceil_div(prompt_tokens + std::max<std::int64_t>(0, output_tokens - 1), page_size);
}

std::int64_t page_capacity(Bytes memory, Bytes page_bytes) {
  return static_cast<std::int64_t>(memory / page_bytes);
}

PageAllocator::PageAllocator(std::int64_t num_pages, std::int64_t page_size)
    : num_pages_(num_pages), page_size_(page_size) {
  if (num_pages < 0 || page_size < 1) {
    throw InputError(
        fmt::format("page allocator: expected num_pages >= 0 and page_size >= 1, got {} and {}", num_pages, page_size));
  }
}

bool PageAllocator::resize(OwnerId owner, std::int64_t num_entries) {
  if (num_entries < 0) throw InputError(fmt::format("page allocator: expected num_entries >= 0, got {}", num_entries));
  const std::int64_t wanted = num_entries / page_size_ + (num_entries % page_size_ != 0 ? 1 : 0);
  const auto known = owners_.find(owner);
  const std::int64_t held = known == owners_.end() ? 0 : static_cast<std::int64_t>(known->second.pages.size());
  if (wanted - held > free_pages()) return false;

  Owner& entry = owners_[owner];
  for (std::int64_t count = held; count < wanted; ++count) {
    if (returned_.empty()) {
      entry.pages.push_back(first_never_used_++);
    } else {
      entry.pages.push_back(returned_.back());
      returned_.pop_back();
    }
  }
  for (std::int64_t count = held; count > wanted; --count) {
    returned_.push_back(entry.pages.back());
    entry.pages.pop_back();
  }
  pages_in_use_ += wanted - held;
  entries_in_use_ += num_entries - entry.num_entries;
  entry.num_entries = num_entries;
  peak_pages_ = std::max(peak_pages_, pages_in_use_);
  return true;
}

std::int64_t PageAllocator::release(OwnerId owner) {
  const auto known = owners_.find(owner);
  if (known == owners_.end()) return 0;
  const std::vector<PageIndex>& pages = known->second.pages;
  const auto count = static_cast<std::int64_t>(pages.size());
  returned_.insert(returned_.end(), pages.rbegin(), pages.rend());
  pages_in_use_ -= count;
  entries_in_use_ -= known->second.num_entries;
  owners_.erase(known);
  return count;
}

const std::vector<PageIndex>& PageAllocator::pages(OwnerId owner) const {
  static const std::vector<PageIndex> kNone;
  const auto known = owners_.find(owner);
  return known == owners_.end() ? kNone : known->second.pages;
}

double PageAllocator::page_use() const {
  return num_pages_ == 0 ? 0 : static_cast<double>(pages_in_use_) / static_cast<double>(num_pages_);
}

double PageAllocator::entry_use() const {
  if (pages_in_use_ == 0) return 1;
  return static_cast<double>(entries_in_use_) / (static_cast<double>(pages_in_use_) * static_cast<double>(page_size_));
}

}  // namespace kvtide::gpu

#pragma once
// The kernels that choose, in every decode step, which pages a head reads (Quest, ArkVale, InfLLM): the queries of a group meet
// the digests of all pages (score_entries.h, without a softmax), then the best pages are taken (top_k.h).
//
// Example, Quest over one sequence of 32,768 tokens, 8 KV heads of 128 channels: 2,048 pages of 16, 2 vectors each, are
// 8 x 4,096 x 256 B = 8.4 MB of digests, and 8 lists of 2,048 scores.

#include <cstdint>
#include <vector>

#include "gpu/kernel_work.h"

namespace kvtide::gpu {

/// Lists of equal length that are chosen from.
struct PageLists {
  std::int64_t num_pages = 0;
  std::int64_t num_kept = 0;   ///< 0..num_pages
  std::int64_t num_lists = 1;  ///< sequences x KV heads
};

struct PageSelection {
  std::vector<PageLists> lists = {};
  std::int64_t digest_vectors = 1;  ///< 16-bit vectors of head_dim, of a page
  std::int64_t head_dim = 128;
  std::int64_t num_queries = 1;  ///< that share a choice: the query heads of a KV head
};

/// @return scores, then choice, each one work over all lists; empty where there are no pages  @throws InputError
[[nodiscard]] std::vector<StreamWork> select_pages_work(const PageSelection& selection);

}  // namespace kvtide::gpu

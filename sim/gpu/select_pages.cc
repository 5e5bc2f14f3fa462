#include "gpu/select_pages.h"

#include "gpu/score_entries.h"
#include "gpu/top_k.h"

namespace kvtide::gpu {
namespace {

/// One launch over the blocks of both.
void add(const StreamWork& more, StreamWork& sum) {
  sum.num_blocks += more.num_blocks;
  sum.read_bytes += more.read_bytes;
  sum.write_bytes += more.write_bytes;
  sum.flops += more.flops;
  sum.query_flops += more.query_flops;
  sum.tensor_flops += more.tensor_flops;
  sum.chunk_bytes = more.chunk_bytes;
  sum.num_launches = more.num_launches;
  sum.input = more.input;
}

}  // namespace

std::vector<StreamWork> select_pages_work(const PageSelection& selection) {
  StreamWork scores, choice;
  for (const PageLists& lists : selection.lists) {
    if (lists.num_pages == 0 || lists.num_lists == 0) continue;
    StreamWork score = score_work({.num_entries = lists.num_pages * selection.digest_vectors,
                                   .kv_heads = lists.num_lists,
                                   .head_dim = selection.head_dim,
                                   .num_queries = selection.num_queries});
    score.num_launches = 1;
    // One score a page, of whichever of its vectors bounds it.
    score.write_bytes = 4 * static_cast<Bytes>(lists.num_pages) * static_cast<Bytes>(lists.num_lists);
    add(score, scores);
    add(top_k_work({.num_lists = lists.num_lists, .list_size = lists.num_pages, .num_kept = lists.num_kept}), choice);
  }
  if (choice.num_blocks == 0) return {};
  return {scores, choice};
}

}  // namespace kvtide::gpu

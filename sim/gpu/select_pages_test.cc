#include "gpu/select_pages.h"

#include <gtest/gtest.h>

#include "gpu/gpu.h"

namespace kvtide::gpu {
namespace {

// The header's example with groups of 4 queries: 8,388,608 B of digests and 8 x 4 x 256 B of queries in, a score of 4 B a page out. Four
// passes read 8 x 2,048 scores of 4 B, 128 places of 4 B a list are written.
TEST(SelectPages, ReadsEveryDigestAndChoosesFromTheScores) {
  const std::vector<StreamWork> work = select_pages_work(
      {.lists = {{.num_pages = 2048, .num_kept = 128, .num_lists = 8}}, .digest_vectors = 2, .num_queries = 4});
  ASSERT_EQ(work.size(), 2u);
  EXPECT_EQ(work[0].read_bytes, 8'388'608u + 8 * 4 * 256u);
  EXPECT_EQ(work[0].write_bytes, 65'536u);
  EXPECT_EQ(work[0].num_launches, 1);
  EXPECT_EQ(work[1].read_bytes, 4u * 65'536u);
  EXPECT_EQ(work[1].write_bytes, 4'096u);
}

// Sequences of several lengths are chosen from in the same kernels.
TEST(SelectPages, OfSeveralLengthsIsTheSumOfThem) {
  const PageLists short_lists{.num_pages = 64, .num_kept = 8, .num_lists = 8};
  const PageLists long_lists{.num_pages = 4096, .num_kept = 8, .num_lists = 16};
  const auto work_of = [](std::vector<PageLists> lists) { return select_pages_work({.lists = std::move(lists)}); };
  const std::vector<StreamWork> both = work_of({short_lists, long_lists});
  for (std::size_t kernel = 0; kernel < 2; ++kernel) {
    const StreamWork one = work_of({short_lists})[kernel], other = work_of({long_lists})[kernel];
    EXPECT_EQ(both[kernel].read_bytes, one.read_bytes + other.read_bytes);
    EXPECT_EQ(both[kernel].num_blocks, one.num_blocks + other.num_blocks);
    EXPECT_EQ(both[kernel].num_launches, one.num_launches);
  }
  EXPECT_TRUE(work_of({}).empty());
  EXPECT_TRUE(work_of({{.num_pages = 0, .num_kept = 0, .num_lists = 8}}).empty());
}

// Quest reports 5 to 10 us for the choice below 128k tokens (arXiv 2406.10774): 8,192 pages of 16.
TEST(SelectPages, TheChoiceTakesWhatQuestReports) {
  Gpu gpu(load_gpu_profile("h100-sxm"), Fidelity::roofline);
  for (const std::int64_t num_pages : {256, 2048, 8191}) {
    const std::vector<StreamWork> work =
        select_pages_work({.lists = {{.num_pages = num_pages, .num_kept = 128, .num_lists = 8}}, .digest_vectors = 2});
    const double time = to_microseconds(gpu.stream(work[1]).duration);
    EXPECT_GE(time, 5) << num_pages;
    EXPECT_LE(time, 10) << num_pages;
  }
}

}  // namespace
}  // namespace kvtide::gpu

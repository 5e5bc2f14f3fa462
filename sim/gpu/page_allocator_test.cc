#include "gpu/page_allocator.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "base/random.h"

namespace kvtide::gpu {
namespace {

// 17 tokens -> 2 pages, 17/32 = 53.125 %; 400 -> 25 pages, 100 %; 401 -> 26 pages, 401/416 = 96.39 %
// (reported in vllm-project/vllm#57336).
TEST(PageAllocator, PagesInUseAreNotTokensInUse) {
  PageAllocator allocator(100, 16);
  ASSERT_TRUE(allocator.resize(1, 17));
  EXPECT_EQ(allocator.pages_in_use(), 2);
  EXPECT_DOUBLE_EQ(allocator.page_use(), 0.02);
  EXPECT_DOUBLE_EQ(allocator.entry_use(), 0.53125);
  ASSERT_TRUE(allocator.resize(1, 400));
  EXPECT_EQ(allocator.pages_in_use(), 25);
  EXPECT_DOUBLE_EQ(allocator.entry_use(), 1);
  ASSERT_TRUE(allocator.resize(1, 401));
  EXPECT_EQ(allocator.pages_in_use(), 26);
  EXPECT_NEAR(allocator.entry_use(), 0.9639, 1e-4);
}

// torch-spyre/sendnn-inference#320: prompt 2,048 at page_size 64 fills 32 pages; only the second output needs a 33rd.
TEST(PageAllocator, LastOutputTokenNeedsNoEntry) {
  EXPECT_EQ(pages_of_request(2048, 1, 64), 32);
  EXPECT_EQ(pages_of_request(2048, 2, 64), 33);
  EXPECT_EQ(pages_of_request(2048, 0, 64), 32);
}

TEST(PageAllocator, CapacityCountsWholePagesOnly) {
  EXPECT_EQ(page_capacity(4095, 4096), 0);
  EXPECT_EQ(page_capacity(4096, 4096), 1);
  EXPECT_EQ(page_capacity(8191, 4096), 1);
}

TEST(PageAllocator, RefusalChangesNothing) {
  PageAllocator allocator(3, 16);
  ASSERT_TRUE(allocator.resize(1, 32));
  const auto before = allocator.pages(1);
  EXPECT_FALSE(allocator.resize(1, 49));
  EXPECT_FALSE(allocator.resize(2, 17));
  EXPECT_EQ(allocator.pages(1), before);
  EXPECT_EQ(allocator.free_pages(), 1);
  EXPECT_TRUE(allocator.resize(2, 16));
  EXPECT_EQ(allocator.free_pages(), 0);
}

TEST(PageAllocator, FreedPagesAreReusedBeforeFreshOnes) {
  PageAllocator allocator(10, 1);
  ASSERT_TRUE(allocator.resize(1, 3));
  ASSERT_TRUE(allocator.resize(2, 1));
  EXPECT_EQ(allocator.release(1), 3);
  ASSERT_TRUE(allocator.resize(3, 4));
  EXPECT_EQ(allocator.pages(3), (std::vector<PageIndex>{0, 1, 2, 4}));
}

TEST(PageAllocator, RandomTrafficConservesPages) {
  RandomStream random(7, "page_allocator");
  PageAllocator allocator(64, 4);
  for (int step = 0; step < 5000; ++step) {
    const auto owner = static_cast<OwnerId>(random.below(12));
    if (random.below(4) == 0) {
      allocator.release(owner);
    } else {
      (void)allocator.resize(owner, static_cast<std::int64_t>(random.below(60)));
    }
    std::set<PageIndex> seen;
    std::int64_t held = 0;
    for (OwnerId each = 0; each < 12; ++each) {
      for (const PageIndex page : allocator.pages(each)) {
        ASSERT_GE(page, 0);
        ASSERT_LT(page, 64);
        seen.insert(page);
        ++held;
      }
    }
    ASSERT_EQ(static_cast<std::int64_t>(seen.size()), held) << "a page has two owners at step " << step;
    ASSERT_EQ(held, allocator.pages_in_use());
    ASSERT_EQ(allocator.pages_in_use() + allocator.free_pages(), 64);
    ASSERT_LE(allocator.entries_in_use(), allocator.pages_in_use() * 4);
    ASSERT_GE(allocator.peak_pages(), allocator.pages_in_use());
  }
}

TEST(PageAllocator, ImpossibleSizesAreRefused) {
  EXPECT_THROW(PageAllocator(-1, 16), InputError);
  EXPECT_THROW(PageAllocator(1, 0), InputError);
  PageAllocator huge(INT64_MAX, 1);  // takes no memory
  EXPECT_THROW((void)huge.resize(1, -1), InputError);
  PageAllocator small(10, 16);
  EXPECT_FALSE(small.resize(1, INT64_MAX));
}

}  // namespace
}  // namespace kvtide::gpu

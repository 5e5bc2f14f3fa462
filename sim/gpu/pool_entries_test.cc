#include "gpu/pool_entries.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvtide::gpu {
namespace {

// 128 entries x 128 channels x (K, V) x 2 B; a quarter of them written.
TEST(PoolEntries, WritesOneEntryForEachWidth) {
  const StreamWork work = pool_work({.num_entries = 128});
  EXPECT_EQ(work.read_bytes, 65'536u);
  EXPECT_EQ(work.write_bytes, 16'384u);
  EXPECT_EQ(work.flops, 65'536);
  EXPECT_EQ(work.num_blocks, 1);
  EXPECT_EQ(pool_work({.num_entries = 129}).write_bytes, 33u * 512);  // the last entry is pooled alone
  EXPECT_EQ(pool_work({.num_entries = 129}).num_blocks, 2);
}

TEST(PoolEntries, ImpossibleShapesAreRefused) {
  EXPECT_THROW((void)pool_work({.num_entries = -1}), InputError);
  EXPECT_THROW((void)pool_work({.num_entries = 1, .width = 0}), InputError);
  EXPECT_THROW((void)pool_work({.num_entries = 1, .head_dim = 65'537}), InputError);
  EXPECT_EQ(pool_work({.num_entries = 0}).num_blocks, 0);
}

}  // namespace
}  // namespace kvtide::gpu

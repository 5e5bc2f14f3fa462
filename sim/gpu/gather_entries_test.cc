#include "gpu/gather_entries.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvtide::gpu {
namespace {

// 2048 entries x 128 channels x (K, V) x 2 B = 1,048,576 B each way; an index of 4 B for each run.
TEST(GatherEntries, ShortRunsReadMoreIndicesInSmallerPieces) {
  const StreamWork single = gather_work({.num_entries = 2048});
  EXPECT_EQ(single.read_bytes, 1'048'576u + 8192u);
  EXPECT_EQ(single.write_bytes, 1'048'576u);
  EXPECT_EQ(single.chunk_bytes, 256u);
  const StreamWork blocks = gather_work({.num_entries = 2048, .run_entries = 16});
  EXPECT_EQ(blocks.read_bytes, 1'048'576u + 512u);
  EXPECT_EQ(blocks.chunk_bytes, 4096u);
}

TEST(GatherEntries, ImpossibleShapesAreRefused) {
  EXPECT_THROW((void)gather_work({.num_entries = -1}), InputError);
  EXPECT_THROW((void)gather_work({.num_entries = 1, .run_entries = 0}), InputError);
  EXPECT_THROW((void)gather_work({.num_entries = 1, .bits = 0}), InputError);
  EXPECT_EQ(gather_work({.num_entries = 0}).num_blocks, 0);
}

}  // namespace
}  // namespace kvtide::gpu

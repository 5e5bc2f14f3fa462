#include "gpu/normalize_rows.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvtide::gpu {
namespace {

// A row of 4096 x 2 B = 8192 B: x and the residual in, sum and norm out.
TEST(NormalizeRows, TheResidualDoublesTheBytes) {
  const StreamWork work = normalize_work({.num_rows = 3});
  EXPECT_EQ(work.read_bytes, 3u * 16'384);
  EXPECT_EQ(work.write_bytes, 3u * 16'384);
  EXPECT_EQ(work.flops, 5.0 * 3 * 4096);
  EXPECT_EQ(normalize_work({.num_rows = 3, .adds_residual = false}).read_bytes, 3u * 8192);
}

TEST(NormalizeRows, ImpossibleShapesAreRefused) {
  EXPECT_THROW((void)normalize_work({.num_rows = -1}), InputError);
  EXPECT_THROW((void)normalize_work({.num_rows = 1, .row_size = 0}), InputError);
  EXPECT_EQ(normalize_work({.num_rows = 0}).num_blocks, 0);
}

}  // namespace
}  // namespace kvtide::gpu

#include "gpu/rotate_positions.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvtide::gpu {
namespace {

// 40 heads x 128 channels x 2 B, in and out; 3 FLOP a channel.
TEST(RotatePositions, MovesQueriesAndKeysTwice) {
  const StreamWork work = rotate_work({.num_tokens = 1, .heads = 40});
  EXPECT_EQ(work.read_bytes, 10'240u);
  EXPECT_EQ(work.write_bytes, 10'240u);
  EXPECT_EQ(work.flops, 15'360);
  EXPECT_EQ(work.input, L2State::warm);
}

TEST(RotatePositions, ImpossibleShapesAreRefused) {
  EXPECT_THROW((void)rotate_work({.num_tokens = -1}), InputError);
  EXPECT_THROW((void)rotate_work({.num_tokens = 1, .heads = 0}), InputError);
  EXPECT_EQ(rotate_work({.num_tokens = 0}).num_blocks, 0);
}

}  // namespace
}  // namespace kvtide::gpu

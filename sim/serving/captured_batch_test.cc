#include "serving/captured_batch.h"

#include <gtest/gtest.h>

namespace kvtide::serving {
namespace {

TEST(PaddedBatch, IsTheNextCapturedSize) {
  // 1, 2, 4, 8 to 248 by 8, 256 to 512 by 16.
  EXPECT_EQ(padded_batch(1, 512), 1);
  EXPECT_EQ(padded_batch(2, 512), 2);
  EXPECT_EQ(padded_batch(3, 512), 4);
  EXPECT_EQ(padded_batch(5, 512), 8);
  EXPECT_EQ(padded_batch(241, 512), 248);
  EXPECT_EQ(padded_batch(248, 512), 248);
  EXPECT_EQ(padded_batch(249, 512), 256);
  EXPECT_EQ(padded_batch(257, 512), 272);
  EXPECT_EQ(padded_batch(512, 512), 512);
  EXPECT_EQ(padded_batch(513, 512), 513);
  EXPECT_EQ(padded_batch(99, 100), 100);  // never beyond the largest captured one
}

}  // namespace
}  // namespace kvtide::serving

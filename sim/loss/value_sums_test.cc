#include "loss/value_sums.h"

#include <gtest/gtest.h>

namespace kvtide::loss {
namespace {

// Two rows over three positions of one channel: values 1, 3, 10.
TEST(ValueSums, OnlyTheStretchCountsAndItsSignDecides) {
  DoubleMatrix weights(2, 3);
  weights << 0.25, 0.5, 0.25, 1, 0, 0;
  kv::RowMatrix values(3, 1);
  values << 1, 3, 10;
  DoubleMatrix sums = DoubleMatrix::Zero(2, 1);
  add_value_sums(weights, values, 0, 2, 1, sums);  // 1/4 + 3/2; 1
  EXPECT_DOUBLE_EQ(sums(0, 0), 1.75);
  EXPECT_DOUBLE_EQ(sums(1, 0), 1);
  add_value_sums(weights, values, 1, 3, -1, sums);  // minus 3/2 + 10/4; minus 0
  EXPECT_DOUBLE_EQ(sums(0, 0), -2.25);
  EXPECT_DOUBLE_EQ(sums(1, 0), 1);
  add_value_sums(weights, values, 2, 2, 1, sums);  // nothing
  EXPECT_DOUBLE_EQ(sums(0, 0), -2.25);
}

// 67 channels (no multiple of any register): channel c of position j is 100 j + c, weights 1 and 2 at positions 0 and 1.
TEST(ValueSums, EveryChannelOfAnOddWidth) {
  DoubleMatrix weights(1, 2);
  weights << 1, 2;
  kv::RowMatrix values(2, 67);
  for (int j = 0; j < 2; ++j) {
    for (int c = 0; c < 67; ++c) values(j, c) = static_cast<float>(100 * j + c);
  }
  DoubleMatrix sums = DoubleMatrix::Zero(1, 67);
  add_value_sums(weights, values, 0, 2, 1, sums);
  for (int c = 0; c < 67; ++c) EXPECT_DOUBLE_EQ(sums(0, c), c + 2.0 * (100 + c));
}

}  // namespace
}  // namespace kvtide::loss

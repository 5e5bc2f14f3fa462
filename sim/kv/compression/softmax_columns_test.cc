#include "kv/compression/softmax_columns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace kvtide::kv {
namespace {

// The header's example: shares (1/4, 3/4) of the keys for the first query, (3/4, 1/4) for the second, weights 1 and 2.
TEST(SoftmaxColumns, AKeyReceivesTheWeightedSharesOfItsQueries) {
  SoftmaxColumns columns(2);
  std::fill_n(columns.logits(), 2 * kQueryLanes, 0.0F);
  const auto log3 = static_cast<float>(std::log(3.0));
  columns.logits()[1] = log3;            // key 0, query 1
  columns.logits()[kQueryLanes] = log3;  // key 1, query 0
  columns.add({2, 2}, {1, 2}, 2);
  std::vector<double> sums(2, 0.0);
  columns.move_into(sums);
  EXPECT_NEAR(sums[0], 1.75, 1e-6);
  EXPECT_NEAR(sums[1], 1.25, 1e-6);
  columns.move_into(sums);  // nothing was added since
  EXPECT_NEAR(sums[0], 1.75, 1e-6);
}

// Three keys of equal logits; the first query sees one, the second two, nobody the third: 1 + 1/2, 1/2, 0. A key that is
// not seen takes nothing even where its logit is the largest.
TEST(SoftmaxColumns, WhatAQueryDoesNotSeeTakesNothing) {
  SoftmaxColumns columns(3);
  std::fill_n(columns.logits(), 3 * kQueryLanes, 0.0F);
  columns.logits()[kQueryLanes] = 80;  // key 1, query 0, which does not see it
  columns.add({1, 2}, {1, 1}, 2);
  std::vector<double> sums(3, 0.0);
  columns.move_into(sums);
  EXPECT_NEAR(sums[0], 1.5, 1e-6);
  EXPECT_NEAR(sums[1], 0.5, 1e-6);
  EXPECT_EQ(sums[2], 0.0);
}

}  // namespace
}  // namespace kvtide::kv

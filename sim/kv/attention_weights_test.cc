#include "kv/attention_weights.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvtide::kv {
namespace {

TEST(AttentionWeights, AreTheSoftmaxOfScaledProducts) {
  // q.k = ln 1, ln 2, ln 5 after the scale: weights 1/8, 2/8, 5/8.
  RowMatrix q(1, 1), k(3, 1);
  q << 2;
  k << 0.0F, static_cast<float>(std::log(2.0)), static_cast<float>(std::log(5.0));
  const RowMatrix weights = attention_weights(q, {2}, k, 3, 0.5F);
  EXPECT_NEAR(weights(0, 0), 0.125, 1e-7);
  EXPECT_NEAR(weights(0, 1), 0.25, 1e-7);
  EXPECT_NEAR(weights(0, 2), 0.625, 1e-7);
}

TEST(AttentionWeights, QuerySeesItselfAndNothingLater) {
  RowMatrix q = RowMatrix::Zero(4, 2), k = RowMatrix::Zero(4, 2);
  // Two heads of the group, queries at 1 and 3: rows 0 and 2 see two keys, rows 1 and 3 see four.
  const RowMatrix weights = attention_weights(q, {1, 3}, k, 4, 1);
  for (const int row : {0, 2}) {
    EXPECT_FLOAT_EQ(weights(row, 1), 0.5F);
    EXPECT_EQ(weights(row, 2), 0);
  }
  for (const int row : {1, 3}) EXPECT_FLOAT_EQ(weights(row, 3), 0.25F);
}

TEST(AttentionWeights, OnlyTheFirstKeysCount) {
  RowMatrix q = RowMatrix::Zero(1, 2), k = RowMatrix::Zero(4, 2);
  const RowMatrix weights = attention_weights(q, {3}, k, 2, 1);
  ASSERT_EQ(weights.cols(), 2);
  EXPECT_FLOAT_EQ(weights(0, 0), 0.5F);
}

TEST(AttentionWeights, LargeLogitsDoNotOverflow) {
  // Logits 1000 and 999: weights 1 / (1 + e^-1) = 0.7310586 and 0.2689414.
  RowMatrix q(1, 1), k(2, 1);
  q << 1;
  k << 1000, 999;
  const RowMatrix weights = attention_weights(q, {1}, k, 2, 1);
  EXPECT_NEAR(weights(0, 0), 0.7310586, 1e-6);
  EXPECT_NEAR(weights(0, 1), 0.2689414, 1e-6);
}

TEST(AttentionWeights, RowsSumToOneOverManyKeys) {
  RowMatrix q = RowMatrix::Zero(1, 1), k = RowMatrix::Zero(100'000, 1);
  const RowMatrix weights = attention_weights(q, {99'999}, k, 100'000, 1);
  EXPECT_NEAR(weights.row(0).cast<double>().sum(), 1, 1e-6);
}

}  // namespace
}  // namespace kvtide::kv

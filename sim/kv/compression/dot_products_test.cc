#include "kv/compression/dot_products.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kv/testing/random_layer.h"

namespace kvtide::kv {
namespace {

// Five rows (a tile and one) by 70 keys (a tile and six) against the plain sum.
TEST(TransposedKeys, ProductsAreTheDotProductsOfRowsAndKeys) {
  const LayerTensors layer = testing::random_layer(1, 75, 8, 3);
  const RowMatrix& k = layer[0].k_post;
  const RowMatrix q = layer[0].v.topRows(5);
  const TransposedKeys keys(k, 70);
  EXPECT_EQ(keys.stride(), 128);
  std::vector<float> products(static_cast<std::size_t>(5 * keys.stride()));
  keys.multiply(q.data(), 5, 0.5F, 70, products.data());
  for (std::int64_t row = 0; row < 5; ++row) {
    for (std::int64_t position = 0; position < 70; ++position) {
      const double exact = 0.5 * q.row(row).cast<double>().dot(k.row(position).cast<double>());
      EXPECT_NEAR(static_cast<double>(products[static_cast<std::size_t>(row * keys.stride() + position)]), exact, 1e-5);
    }
  }
}

// 70 rows by 5 keys and the Gram matrix of 300 rows, beyond one tile of each.
TEST(RowProducts, AreMatrixProductsWithTheTransposed) {
  const LayerTensors layer = testing::random_layer(1, 300, 8, 4);
  const RowMatrix rows = layer[0].k_post.topRows(70);
  const RowMatrix keys = layer[0].v.topRows(5);
  EXPECT_LT((row_products(rows, keys) - rows * keys.transpose()).cwiseAbs().maxCoeff(), 1e-5F);
  const Eigen::MatrixXd exact = layer[0].v.transpose().cast<double>() * layer[0].v.cast<double>();
  EXPECT_LT((gram(layer[0].v) - exact).cwiseAbs().maxCoeff(), 1e-3);
}

// From far below the smallest exponential of float32 (e^-87) up to the largest itself, 0.
TEST(Exponentials, AreWithinFloatRoundingOfTheExactOnesAndSumUp) {
  std::vector<float> values;
  for (int step = 0; step < 1000; ++step) values.push_back(-0.2F * static_cast<float>(step) + 3.0F);
  const std::vector<float> before = values;
  const double sum = exponentials(values.data(), 1000);
  double exact_sum = 0;
  for (std::size_t index = 0; index < values.size(); ++index) {
    const double exact = std::exp(static_cast<double>(before[index] - before[0]));
    exact_sum += exact;
    EXPECT_NEAR(static_cast<double>(values[index]), exact, 3e-7 * exact + 2e-38) << before[index];
  }
  EXPECT_NEAR(sum, exact_sum, 1e-6 * exact_sum);
  EXPECT_EQ(exponentials(values.data(), 0), 0.0);
}

}  // namespace
}  // namespace kvtide::kv

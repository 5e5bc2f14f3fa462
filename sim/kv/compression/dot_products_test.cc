#include "kv/compression/dot_products.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kv/testing/random_layer.h"

namespace kvtide::kv {
namespace {

// Two sets of one channel side by side: |2 * 3| + |2 * -5| of the first key, |2 * 1| + |2 * 0| of the second.
TEST(AbsoluteProductSums, AddSetsOfChannels) {
  RowMatrix keys(2, 2);
  keys << 3, -5, 1, 0;
  EXPECT_EQ(absolute_product_sums(RowMatrix::Constant(1, 1, 2.0F), keys), (std::vector<float>{18}));
}

// Rows and keys within, beside and beyond tiles, with matrix tiles and without them, against the plain sum.
TEST(TransposedKeys, ProductsAreTheDotProductsOfRowsAndKeys) {
  const LayerTensors layer = testing::random_layer(1, 125, 8, 3);
  const RowMatrix& k = layer[0].k_post;
  for (const std::int64_t num_keys : {5, 20, 40, 70, 120}) {
    for (const std::int64_t num_rows : {5, 40}) {
      const RowMatrix q = layer[0].v.topRows(num_rows);
      const TransposedKeys keys(k, num_keys);
      EXPECT_GE(keys.stride(), num_keys);
      EXPECT_EQ(keys.stride() % 16, 0);
      std::vector<float> products(static_cast<std::size_t>(num_rows * keys.stride()));
      keys.multiply(q.data(), num_rows, 0.5F, num_keys, products.data());
      for (std::int64_t row = 0; row < num_rows; ++row) {
        for (std::int64_t position = 0; position < num_keys; ++position) {
          const double exact = 0.5 * q.row(row).cast<double>().dot(k.row(position).cast<double>());
          const float found = products[static_cast<std::size_t>(row * keys.stride() + position)];
          ASSERT_NEAR(static_cast<double>(found), exact, 1e-5) << row << " " << position << " of " << num_keys;
        }
      }
    }
  }
}

// 70 rows by 5 keys, beyond one tile of each.
TEST(RowProducts, AreMatrixProductsWithTheTransposed) {
  const LayerTensors layer = testing::random_layer(1, 300, 8, 4);
  const RowMatrix rows = layer[0].k_post.topRows(70);
  const RowMatrix keys = layer[0].v.topRows(5);
  EXPECT_LT((row_products(rows, keys) - rows * keys.transpose()).cwiseAbs().maxCoeff(), 1e-5F);
}

// 70 rows by 40 keys in the cheaper precision, 2^-16 of each product: with 8 channels of about 1 below 1e-4.
TEST(RowProducts, HalfPrecisionIsGoodToFourDigits) {
  const LayerTensors layer = testing::random_layer(1, 300, 8, 5);
  const RowMatrix rows = layer[0].k_post.topRows(70);
  const RowMatrix keys = layer[0].v.topRows(40);
  EXPECT_LT((row_products(rows, keys, TilePrecision::half) - rows * keys.transpose()).cwiseAbs().maxCoeff(), 1e-4F);
  const std::vector<float> sums = absolute_product_sums(rows, keys);
  const Eigen::VectorXf exact = (rows * keys.transpose()).cwiseAbs().rowwise().sum();
  for (std::int64_t row = 0; row < 70; ++row) {
    EXPECT_NEAR(sums[static_cast<std::size_t>(row)], exact[row], 1e-3F) << row;
  }
}

// 9 rows (two tiles and one), 130 columns (two tiles and two), 70 terms; the left factor as it lies and transposed.
TEST(MatrixProduct, IsTheProductOfEitherLayout) {
  const LayerTensors layer = testing::random_layer(1, 300, 130, 6);
  const RowMatrix left = layer[0].v.topLeftCorner(9, 70);
  const RowMatrix right = layer[0].k_post.topRows(70);
  const RowMatrix exact = left * right;
  RowMatrix product(9, 130);
  matrix_product({left.data(), 70, 1}, 9, 70, right.data(), 130, product.data());
  EXPECT_LT((product - exact).cwiseAbs().maxCoeff(), 1e-4F);
  const RowMatrix transposed = left.transpose();
  matrix_product({transposed.data(), 1, 9}, 9, 70, right.data(), 130, product.data());
  EXPECT_LT((product - exact).cwiseAbs().maxCoeff(), 1e-4F);
}

TEST(SingleRowProducts, AreDotProducts) {
  const LayerTensors layer = testing::random_layer(1, 40, 20, 7);
  const float* row = layer[0].v.row(3).data();
  const std::vector<float> products = single_row_products(row, layer[0].k_post, 40, 0.5F);
  ASSERT_EQ(products.size(), 40u);
  for (std::int64_t key = 0; key < 40; ++key) {
    EXPECT_NEAR(products[static_cast<std::size_t>(key)], 0.5F * layer[0].v.row(3).dot(layer[0].k_post.row(key)), 1e-5F);
  }
  const std::vector<std::int64_t> some{39, 0, 7};
  EXPECT_EQ(single_row_products(row, layer[0].k_post, 3, 0.5F, some.data()),
            (std::vector<float>{products[39], products[0], products[7]}));
}

// sums (1, 1) + 2 * (1, 2) + 3 * (3, 4) = (12, 17), beyond one vector: 65 columns of it.
TEST(AddScaledRows, AddsEveryRowTimesItsFactor) {
  std::vector<float> values(2 * 80);
  for (std::size_t column = 0; column < 65; ++column) {
    values[column] = column % 2 == 0 ? 1.0F : 2.0F;
    values[80 + column] = column % 2 == 0 ? 3.0F : 4.0F;
  }
  std::vector<float> sums(65, 1.0F);
  const std::vector<float> factors{2.0F, 3.0F};
  add_scaled_rows(values.data(), 80, 2, 65, factors.data(), sums.data());
  EXPECT_EQ(sums[0], 12.0F);
  EXPECT_EQ(sums[63], 17.0F);
  EXPECT_EQ(sums[64], 12.0F);
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

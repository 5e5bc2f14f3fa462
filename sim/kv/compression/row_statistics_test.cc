#include "kv/compression/row_statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kv/testing/random_layer.h"

namespace kvtide::kv {
namespace {

// Rows (3, 4) and (0, 2): 25 and 4; 20 channels are one whole vector and four: 20 of 0.5 squared are 5.
TEST(SquaredLengths, AddUpAllChannels) {
  RowMatrix rows(2, 2);
  rows << 3, 4, 0, 2;
  EXPECT_EQ(squared_lengths(rows, 2), (std::vector<float>{25, 4}));
  EXPECT_EQ(squared_lengths(RowMatrix::Constant(1, 20, 0.5F), 1), (std::vector<float>{5}));
}

// 2 (1, 2) + 3 (3, 4) = (11, 16); 130 rows of 1 and weight 1 cross two borders of 64.
TEST(WeightedSum, AddsRowsTimesTheirWeights) {
  RowMatrix rows(2, 2);
  rows << 1, 2, 3, 4;
  const std::vector<float> weights{2, 3};
  EXPECT_EQ(weighted_sum(rows, weights), Eigen::Vector2d(11, 16));
  const std::int64_t second = 1;
  EXPECT_EQ(weighted_sum(rows, std::vector<float>{2}, &second), (2 * rows.row(1)).transpose().cast<double>());
  const std::vector<float> even(130, 1.0F);
  EXPECT_EQ(weighted_sum(RowMatrix::Ones(130, 3), even), Eigen::Vector3d(130, 130, 130));
}

// M = [[2, 1], [1, 1]]: (3, 4) gives 2*9 + 2*12 + 16 = 58, (0, 2) gives 4; about the centre (3, 2) they are (0, 2) and
// (-3, 0): 4 and 18. What stands below the diagonal is not read.
TEST(QuadraticForms, CountTheUpperTriangleTwice) {
  RowMatrix rows(2, 2);
  rows << 3, 4, 0, 2;
  Eigen::MatrixXd matrix(2, 2);
  matrix << 2, 1, -77, 1;
  EXPECT_EQ(quadratic_forms(rows, matrix), (std::vector<float>{58, 4}));
  const std::vector<float> centre{3, 2};
  EXPECT_EQ(quadratic_forms(rows, matrix, centre), (std::vector<float>{4, 18}));
}

// 37 rows (two vectors and five) of 40 channels (two and eight) against float64.
TEST(QuadraticForms, AreExactBeyondOneVector) {
  const RowMatrix rows = testing::random_layer(1, 37, 40, 4)[0].k_post;
  const RowMatrix factor = testing::random_layer(1, 50, 40, 5)[0].v;
  const Eigen::MatrixXd matrix = factor.cast<double>().transpose() * factor.cast<double>();
  const std::vector<float> forms = quadratic_forms(rows, matrix);
  ASSERT_EQ(forms.size(), 37U);
  for (std::int64_t row = 0; row < 37; ++row) {
    const Eigen::VectorXd x = rows.row(row).cast<double>().transpose();
    const double exact = x.dot(matrix * x);
    EXPECT_NEAR(forms[static_cast<std::size_t>(row)], exact, 1e-5 * exact) << row;
  }
}

// (3, 4) and (0, 2): [[9, 12], [12, 20]]; about (3, 2): (0, 2) and (-3, 0): [[9, 0], [0, 4]]; with factors 2 and 1 then
// (0, 4) and (-3, 0): [[9, 0], [0, 16]].
TEST(Gram, CentresAndWeighsRows) {
  RowMatrix rows(2, 2);
  rows << 3, 4, 0, 2;
  Eigen::Matrix2d expected;
  expected << 9, 12, 12, 20;
  EXPECT_EQ(gram(rows), expected);
  const std::vector<float> centre{3, 2};
  expected << 9, 0, 0, 4;
  EXPECT_EQ(gram(rows, centre), expected);
  const std::vector<float> factors{2, 1};
  expected << 9, 0, 0, 16;
  EXPECT_EQ(gram(rows, centre, factors), expected);
}

TEST(Gram, IsExactBeyondOneBlock) {
  const RowMatrix rows = testing::random_layer(1, 300, 40, 6)[0].v;
  const Eigen::MatrixXd exact = rows.cast<double>().transpose() * rows.cast<double>();
  EXPECT_LT((gram(rows) - exact).cwiseAbs().maxCoeff(), 1e-3);
}

// Bounds (0, 2) and (4, 6): (2, 4) scales to (0.5, 0.5), deviation 0; (4, 2) to (1, 0): mean 0.5, deviation
// sqrt((0.25 + 0.25) / 1) = 0.7071.
TEST(ScaledDeviations, AreInUnitsOfTheOtherRowsRange) {
  RowMatrix scale(2, 2);
  scale << 0, 6, 4, 2;
  RowMatrix rows(2, 2);
  rows << 2, 4, 4, 2;
  const std::vector<float> found = scaled_deviations(rows, scale);
  EXPECT_EQ(found[0], 0);
  EXPECT_FLOAT_EQ(found[1], std::sqrt(0.5F));
}

// 70 channels are four registers and six more; both ways written out in float64.
TEST(ScaledDeviations, AreExactBeyondOneBlockOfChannels) {
  const RowMatrix rows = testing::random_layer(1, 37, 70, 4)[0].k_post;
  const RowMatrix scale = testing::random_layer(1, 20, 70, 5)[0].v;
  const std::vector<float> found = scaled_deviations(rows, scale);
  const Eigen::ArrayXXd low = scale.colwise().minCoeff().cast<double>().array();
  const Eigen::ArrayXXd range = scale.colwise().maxCoeff().cast<double>().array() - low;
  for (std::int64_t row = 0; row < rows.rows(); ++row) {
    const Eigen::ArrayXXd scaled = (rows.row(row).cast<double>().array() - low) / range;
    const double exact = std::sqrt((scaled - scaled.mean()).square().sum() / 69);
    EXPECT_NEAR(found[static_cast<std::size_t>(row)], exact, 1e-5 * exact) << row;
  }
}

}  // namespace
}  // namespace kvtide::kv

#include "kv/compression/outliers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kv/testing/random_layer.h"

namespace kvtide::kv {
namespace {

// Columns of mean and standard deviation 3 and 3.46, 2 and 2, 0 and 100: the farthest are (3, 0) with 6 / 3.46 = 1.73, then all of the
// others at 1.0, of which (0, 1) is the first.
RowMatrix three_columns() {
  RowMatrix values(4, 3);
  values << 1, 0, 100,  //
      1, 0, -100,       //
      1, 4, 100,        //
      9, 4, -100;
  return values;
}

TEST(Outliers, AreFarthestInUnitsOfTheirColumnsDeviation) {
  RowMatrix values = three_columns();
  const std::vector<Outlier> outliers = take_outliers(values, GroupAxis::channel, 166'667);  // 2.000004 of 12
  ASSERT_EQ(outliers.size(), 2u);
  EXPECT_EQ(outliers[0].row, 0);
  EXPECT_EQ(outliers[0].column, 1);
  EXPECT_EQ(outliers[0].value, 0);
  EXPECT_EQ(outliers[1].row, 3);
  EXPECT_EQ(outliers[1].column, 0);
  EXPECT_EQ(outliers[1].value, 9);
  RowMatrix expected = three_columns();
  expected(0, 1) = 2;
  expected(3, 0) = 3;
  EXPECT_EQ(values, expected);
  put_back(outliers, values);
  EXPECT_EQ(values, three_columns());
}

// The same numbers lying on their side.
TEST(Outliers, OfTokensAreMeasuredAgainstTheirRow) {
  RowMatrix values = three_columns().transpose();
  const std::vector<Outlier> outliers = take_outliers(values, GroupAxis::token, 100'000);  // 1.2 of 12
  ASSERT_EQ(outliers.size(), 1u);
  EXPECT_EQ(outliers[0].row, 0);
  EXPECT_EQ(outliers[0].column, 3);
  EXPECT_EQ(values(0, 3), 3);
}

TEST(Outliers, AreAsManyAsWholeOnesFitTheShare) {
  RowMatrix values = three_columns();
  EXPECT_TRUE(take_outliers(values, GroupAxis::channel, 83'333).empty());  // 0.999996 of 12
  EXPECT_EQ(values, three_columns());
  EXPECT_EQ(take_outliers(values, GroupAxis::channel, 83'334).size(), 1u);
}

// 2,049 lies between the fp16 numbers 2,048 and 2,050 and goes to the even one.
TEST(Outliers, AreStoredInHalfPrecision) {
  RowMatrix values = RowMatrix::Zero(4, 1);
  values(2, 0) = 2049;
  const std::vector<Outlier> outliers = take_outliers(values, GroupAxis::channel, 250'000);
  ASSERT_EQ(outliers.size(), 1u);
  EXPECT_EQ(outliers[0].value, 2048);
  EXPECT_EQ(values(2, 0), 512.25F);
}

// 70 rows of 35 columns, beside whole registers of both: what was taken is farther than all that stayed, by column and by row,
// and as many as 10 % are.
TEST(Outliers, AreTheFarthestOfMany) {
  for (const GroupAxis axis : {GroupAxis::channel, GroupAxis::token}) {
    RowMatrix values = testing::random_layer(1, 70, 35, 3)[0].v;
    const RowMatrix before = values;
    const std::vector<Outlier> outliers = take_outliers(values, axis, 100'000);
    ASSERT_EQ(outliers.size(), 245u);
    const auto distance_of = [&](std::int64_t row, std::int64_t column) {
      Eigen::VectorXd of_vector = before.col(column).cast<double>();
      if (axis == GroupAxis::token) of_vector = before.row(row).transpose().cast<double>();
      const double deviation = std::sqrt((of_vector.array() - of_vector.mean()).square().mean());
      return std::abs(static_cast<double>(before(row, column)) - of_vector.mean()) / deviation;
    };
    double least = INFINITY;
    RowMatrix is_taken = RowMatrix::Zero(70, 35);
    for (const Outlier& outlier : outliers) {
      least = std::min(least, distance_of(outlier.row, outlier.column));
      is_taken(outlier.row, outlier.column) = 1;
    }
    for (std::int64_t row = 0; row < 70; ++row) {
      for (std::int64_t column = 0; column < 35; ++column) {
        if (is_taken(row, column) == 1) continue;
        EXPECT_LE(distance_of(row, column), least * (1 + 1e-6)) << row << " " << column;
      }
    }
  }
}

}  // namespace
}  // namespace kvtide::kv

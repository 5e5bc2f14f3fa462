#include "serving/profile_tables.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace kvtide::serving {
namespace {

TEST(GridTable, IsLinearBetweenItsPointsAndContinuedAboveThem) {
  const GridTable table({{1, 0}, {1, 10}, {3, 0}, {3, 10}}, {1, 2, 5, 8});
  EXPECT_DOUBLE_EQ(table.at({1, 0}), 1);
  EXPECT_DOUBLE_EQ(table.at({3, 10}), 8);
  EXPECT_DOUBLE_EQ(table.at({2, 0}), 3);
  EXPECT_DOUBLE_EQ(table.at({2, 5}), 4);   // mean of 1, 2, 5, 8
  EXPECT_DOUBLE_EQ(table.at({1, 20}), 3);  // 2 + 1
  EXPECT_DOUBLE_EQ(table.at({0, 0}), 1);   // below the first point: that point
  EXPECT_DOUBLE_EQ(GridTable({{4}}, {7}).at({9}), 7);
}

TEST(GridTable, APointMissingFromTheGridIsTakenFromItsNeighbours) {
  // f = x + 10 y on two grids that share the row y = 0: (2, 1) was not measured.
  const GridTable table({{1, 0}, {2, 0}, {3, 0}, {1, 1}, {3, 1}}, {1, 2, 3, 11, 13});
  EXPECT_DOUBLE_EQ(table.at({2, 1}), 12);
  // A corner has no neighbours on two sides of any axis.
  EXPECT_TRUE(std::isnan(GridTable({{1, 0}, {2, 0}, {1, 1}}, {1, 2, 3}).at({2, 1})));
  EXPECT_THROW(GridTable({}, {}), InputError);
}

}  // namespace
}  // namespace kvtide::serving

#include "serving/profile_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

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

/// Rows that share no coordinate on any of four axes.
std::vector<std::vector<double>> diagonal(int count) {
  std::vector<std::vector<double>> points;
  for (double i = 1; i <= count; ++i) points.push_back({i, i, i, i});
  return points;
}

// 45^4 = 4,100,625 cells are within 2^22 = 4,194,304, 46^4 = 4,477,456 are not.
TEST(GridTable, OfPointsThatShareNothingIsRefusedBeforeItIsFilled) {
  EXPECT_NO_THROW(GridTable(diagonal(45), std::vector<double>(45, 1)));
  EXPECT_THROW(GridTable(diagonal(46), std::vector<double>(46, 1)), InputError);
}

TEST(ProfileTables, NamesTheFileAndTheFirstRowOfAGridTooLarge) {
  const std::string prefix = testing::TempDir() + "profile-" + std::to_string(::getpid());
  std::ofstream(prefix + ".dense.csv") << "layer,tokens,time_us\nmlp,1,1\n";
  std::ofstream(prefix + ".per_sequence.csv") << "layer,sequences,time_us\nhead,1,1\n";
  {
    std::ofstream table(prefix + ".attention.csv");
    table << "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n1,0,0,0,1\n0,0,1,1,1\n";  // lines 2 and 3
    for (int i = 1; i <= 399; ++i) table << i << ',' << i << ',' << i << ',' << i << ",1\n";
  }
  try {
    (void)ProfileTables(prefix, 1, 8, {});
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(".attention.csv:4: 399 measured points span a grid of more than"));
  }
  for (const char* part : {".dense.csv", ".per_sequence.csv", ".attention.csv"}) std::filesystem::remove(prefix + part);
}

}  // namespace
}  // namespace kvtide::serving

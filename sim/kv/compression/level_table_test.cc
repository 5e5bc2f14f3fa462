#include "kv/compression/level_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace kvtide::kv {
namespace {

// J. Max, Quantizing for minimum distortion (IRE Transactions IT-6, 1960), table I: positive levels of 2, 4 and 8.
TEST(LevelTable, GaussianLevelsAreThoseOfMax) {
  EXPECT_NEAR(gaussian_levels(1)[1], 0.79788, 1e-5);  // sqrt(2 / pi)
  EXPECT_NEAR(gaussian_levels(2)[2], 0.4528, 1e-4);
  EXPECT_NEAR(gaussian_levels(2)[3], 1.510, 1e-3);
  EXPECT_NEAR(gaussian_levels(3)[4], 0.2451, 1e-4);
  EXPECT_NEAR(gaussian_levels(3)[7], 2.152, 1e-3);
  EXPECT_NEAR(gaussian_levels(4)[15], 2.733, 1e-3);
}

// The errors of Max's table I: 0.3634, 0.1175, 0.03454, 0.009497. 400,000 samples: standard error below 0.3 %.
TEST(LevelTable, GaussianErrorIsThatOfMax) {
  RandomStream stream(2, "levels");
  std::vector<float> samples;
  for (int index = 0; index < 400'000; ++index) samples.push_back(static_cast<float>(stream.normal()));
  const double expected[] = {0.3634, 0.1175, 0.03454, 0.009497};
  for (int bits = 1; bits <= 4; ++bits) {
    double sum = 0;
    for (const float x : samples) {
      const double error = static_cast<double>(x - nearest_level(gaussian_levels(bits), x));
      sum += error * error;
    }
    EXPECT_NEAR(sum / 400'000, expected[bits - 1], 0.012 * expected[bits - 1]) << bits;
  }
}

// Two levels of a uniform density on [0, 1]: 1/4 and 3/4.
TEST(LevelTable, UniformDensityHasEquidistantLevels) {
  const auto levels = density_levels([](double) { return 1.0; }, 0, 1, 2);
  EXPECT_NEAR(levels[0], 0.25, 1e-3);
  EXPECT_NEAR(levels[1], 0.75, 1e-3);
}

// Two clusters: their means.
TEST(LevelTable, FittedLevelsAreTheMeansOfTheirNumbers) {
  const std::vector<float> sorted{0, 1, 2, 10, 11, 12};
  EXPECT_EQ(fitted_levels(sorted, 2), (std::vector<float>{1, 11}));
  EXPECT_EQ(fitted_levels(std::vector<float>{3, 3, 3}, 4), (std::vector<float>{3, 3, 3, 3}));
}

TEST(LevelTable, NearestLevelTakesTheLowerOfTwoEquallyNear) {
  const std::vector<float> levels{0, 2, 6};
  EXPECT_EQ(nearest_level(levels, 1), 0);
  EXPECT_EQ(nearest_level(levels, 1.01F), 2);
  EXPECT_EQ(nearest_level(levels, -5), 0);
  EXPECT_EQ(nearest_level(levels, 99), 6);
}

// 131 values: more than are handled together, on both sides of every boundary and on it.
TEST(LevelTable, NearestLevelsOfManyAreThoseOfEach) {
  for (const std::vector<float>& levels : {std::vector<float>{3}, {0, 2, 6}, gaussian_levels(4)}) {
    std::vector<float> values;
    for (int step = 0; step < 131; ++step) values.push_back(static_cast<float>(step - 20) / 16);
    std::vector<float> expected;
    for (const float value : values) expected.push_back(nearest_level(levels, value));
    take_nearest_levels(levels, values.data(), std::ssize(values));
    EXPECT_EQ(values, expected);
  }
}

TEST(LevelTable, NumbersAreSortedByTheirSize) {
  std::vector<float> numbers{3, -2, 0.5F, -1e30F, 1e-40F, 1e30F, -0.5F, 0.5F, -1e-40F};
  sort_numbers(numbers);
  EXPECT_EQ(numbers, (std::vector<float>{-1e30F, -2, -0.5F, -1e-40F, 1e-40F, 0.5F, 0.5F, 3, 1e30F}));
  RandomStream random(1, "sort_numbers");
  std::vector<float> many(5000);
  for (float& number : many) number = static_cast<float>(random.normal());
  std::vector<float> expected = many;
  std::ranges::sort(expected);
  sort_numbers(many);
  EXPECT_EQ(many, expected);
}

}  // namespace
}  // namespace kvtide::kv

#include "kv/rope.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numbers>

namespace kvtide::kv {
namespace {

TEST(Rope, PositionOneTurnsTheFirstPairByOneRadian) {
  // Pair 0 turns by position * theta^0 radians, whatever theta: (1, 0) -> (cos 1, sin 1).
  std::array<float, 2> row = {1, 0};
  Rope{12345}.rotate(row, 1);
  EXPECT_FLOAT_EQ(row[0], 0.5403023F);
  EXPECT_FLOAT_EQ(row[1], 0.8414710F);
}

TEST(Rope, ChannelIsPairedWithTheOneHalfAHeadAway) {
  // d = 4, theta = 16: pair 1 is channels 1 and 3 and turns by 16^(-2/4) = 1/4 radian a token; 2 pi tokens are pi / 2.
  std::array<float, 4> row = {0, 1, 0, 0};
  Rope{16}.rotate(row, 2 * std::numbers::pi);
  EXPECT_NEAR(row[1], 0, 1e-6);
  EXPECT_NEAR(row[3], 1, 1e-6);
  EXPECT_EQ(row[0], 0);
  EXPECT_EQ(row[2], 0);
}

TEST(Rope, RowsTakeTheirPositionsInTurnAndAgain) {
  // Three rows, two positions: rows 0 and 2 turn by 1 radian, row 1 by 0.
  std::array<float, 6> rows = {1, 0, 1, 0, 1, 0};
  const std::array<std::int64_t, 2> positions = {1, 0};
  Rope{10000}.rotate_rows(rows.data(), 3, 2, positions);
  EXPECT_FLOAT_EQ(rows[1], 0.8414710F);
  EXPECT_EQ(rows[3], 0);
  EXPECT_FLOAT_EQ(rows[5], 0.8414710F);
}

TEST(Rope, WavelengthIsOneTurn) {
  // d = 64, theta = 100000: pair 8 has 2 pi * 100000^(16/64) = 6.2831853 * 17.7827941 = 111.73259 tokens.
  const Rope rope{100000};
  EXPECT_NEAR(rope.wavelength(8, 64), 111.73259, 1e-4);
  EXPECT_NEAR(rope.wavelength(0, 64), 2 * std::numbers::pi, 1e-12);
  std::array<float, 64> row{};
  row[8] = 1;
  rope.rotate(row, rope.wavelength(8, 64));
  EXPECT_NEAR(row[8], 1, 1e-6);
  EXPECT_NEAR(row[40], 0, 1e-6);
}

TEST(Rope, ScoreDependsOnTheDistanceOnly) {
  const Rope rope{10000};
  const auto score = [&](double query_position, double key_position) {
    std::array<float, 8> query = {0.3F, -1, 2, 0.5F, 1, 0.25F, -0.75F, 1.5F};
    std::array<float, 8> key = {1, 0.5F, -0.25F, 2, -1, 0.75F, 0.5F, -0.5F};
    rope.rotate(query, query_position);
    rope.rotate(key, key_position);
    double sum = 0;
    for (std::size_t i = 0; i < 8; ++i) sum += static_cast<double>(query[i]) * key[i];
    return sum;
  };
  EXPECT_NEAR(score(1000, 900), score(100, 0), 1e-5);
  EXPECT_GT(std::abs(score(1000, 900) - score(1000, 890)), 0.01);
}

TEST(Rope, ThetaZeroTurnsNothing) {
  std::array<float, 2> row = {1, 2};
  Rope{0}.rotate(row, 500);
  EXPECT_EQ(row[0], 1);
  EXPECT_EQ(row[1], 2);
}

}  // namespace
}  // namespace kvtide::kv

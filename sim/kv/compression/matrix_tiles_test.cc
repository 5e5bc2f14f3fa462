#include "kv/compression/matrix_tiles.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kv/testing/random_layer.h"

namespace kvtide::kv {
namespace {

// 40 rows and 70 columns of 50 channels: part of a second pair of tiles, of a third, and of a second chunk. Against float64,
// an error in shares of the sum of |x y|: float32 has 2^-24 a rounding, three products of bfloat16 leave 2^-16.
TEST(MatrixTiles, ProductsAreAsGoodAsFloat32) {
  if (!has_matrix_tiles()) GTEST_SKIP() << "no matrix tiles on this processor, or switched off";
  const LayerTensors layer = testing::random_layer(1, 80, 50, 11);
  const RowMatrix rows = layer[0].k_post.topRows(40);
  const RowMatrix columns = layer[0].v.topRows(70);
  const TileOperand left(TileOperand::Side::rows, rows.data(), 40, 50, 50, 0.5F);
  const TileOperand right(TileOperand::Side::columns, columns.data(), 70, 50, 50);
  std::vector<float> product(64 * 96);
  for (const TilePrecision precision : {TilePrecision::full, TilePrecision::half}) {
    tile_product(left, right, left.num_pairs() * 32, 70, precision, product.data(), 96);
    const double allowed = std::exp2(precision == TilePrecision::full ? -21 : -15);
    for (std::int64_t row = 0; row < 40; ++row) {
      for (std::int64_t column = 0; column < 70; ++column) {
        const auto x = rows.row(row).cast<double>() * 0.5;
        const auto y = columns.row(column).cast<double>();
        const double sum = x.cwiseAbs().dot(y.cwiseAbs());
        ASSERT_NEAR(static_cast<double>(product[static_cast<std::size_t>(row * 96 + column)]), x.dot(y), allowed * sum)
            << row << " " << column;
      }
    }
  }
}

// 96 rows, three pairs of tiles, made and multiplied in turn: the same numbers as all at once.
TEST(MatrixTiles, RowsMadeAFewAtATimeGiveTheSame) {
  if (!has_matrix_tiles()) GTEST_SKIP() << "no matrix tiles on this processor, or switched off";
  const LayerTensors layer = testing::random_layer(1, 100, 50, 12);
  const float* rows = layer[0].k_post.data();
  const TileOperand left(TileOperand::Side::rows, rows, 96, 50, 50, 0.5F);
  const TileOperand right(TileOperand::Side::columns, layer[0].v.data(), 20, 50, 50);
  std::vector<float> at_once(96 * 32);
  std::vector<float> in_turn(96 * 32);
  tile_product(left, right, 96, 20, TilePrecision::full, at_once.data(), 32);
  tile_product({rows, 96, 50, 0.5F}, right, 20, TilePrecision::full, in_turn.data(), 32);
  EXPECT_EQ(in_turn, at_once);
}

// 1 + 2^-9 needs two parts, 1 + 2^-9 + 2^-18 three; their squares come out as float32 rounds them.
TEST(MatrixTiles, ThreePartsHoldAFloat) {
  if (!has_matrix_tiles()) GTEST_SKIP() << "no matrix tiles on this processor, or switched off";
  const float value = 1 + std::exp2(-9.0F) + std::exp2(-18.0F);
  const TileOperand left(TileOperand::Side::rows, &value, 1, 1, 1);
  const TileOperand right(TileOperand::Side::columns, &value, 1, 1, 1);
  std::vector<float> product(32 * 32);
  tile_product(left, right, 1, 1, TilePrecision::full, product.data(), 32);
  EXPECT_NEAR(product[0], value * value, 1.2e-7F);
  EXPECT_EQ(product[1], 0);
}

}  // namespace
}  // namespace kvtide::kv

#include "kv/merged_layers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kv/testing/random_layer.h"

namespace kvtide::kv {
namespace {

/// One head of `rows` two-channel rows, K and V alike, no rotation.
LayerTensors layer_of(const std::vector<std::array<float, 2>>& rows) {
  LayerTensors layer = testing::random_layer(1, static_cast<std::int64_t>(rows.size()), 2, 1, 0);
  HeadTensors& head = layer.front();
  for (std::size_t row = 0; row < rows.size(); ++row) {
    Eigen::RowVectorXf values(2);
    values << rows[row][0], rows[row][1];
    for (RowMatrix* part : {&head.k_pre, &head.k_post, &head.v}) part->row(static_cast<std::int64_t>(row)) = values;
  }
  return layer;
}

// (2, 0) and (0, 6): halfway is (1, 1) / sqrt 2 = 0.70711, in fp16 0.70703 (1448 / 2048); lengths 2 and 6 are exact.
TEST(MergedLayers, OneDirectionAndEachLayersOwnLength) {
  const LayerTensors lower = layer_of({{2, 0}}), upper = layer_of({{0, 6}});
  const auto merged = merged_layers({&lower, &upper}, 1, 0);
  const float half = 1448.0F / 2048;
  for (const auto part : {&HeadTensors::k_pre, &HeadTensors::k_post, &HeadTensors::v}) {
    EXPECT_EQ((merged[0].front().*part).row(0), Eigen::RowVector2f(2 * half, 2 * half));
    EXPECT_EQ((merged[1].front().*part).row(0), Eigen::RowVector2f(6 * half, 6 * half));
  }
}

// Angles of the pairs: 0, 90, 180 degrees, 0. Half of 4 retained: the two that differ, though 180 degrees cancel out; later
// positions are not touched.
TEST(MergedLayers, LeastAlikePositionsAndLaterOnesStay) {
  const LayerTensors lower = layer_of({{1, 0}, {1, 0}, {1, 0}, {4, 0}, {1, 0}});
  const LayerTensors upper = layer_of({{3, 0}, {0, 3}, {-3, 0}, {8, 0}, {0, 3}});
  const auto merged = merged_layers({&lower, &upper}, 4, 500'000);
  EXPECT_EQ(merged[0].front().v, lower.front().v);  // the alike are their own direction
  EXPECT_EQ(merged[1].front().v, upper.front().v);
  const auto none = merged_layers({&lower, &upper}, 4, 0);
  EXPECT_EQ(none[0].front().v.row(2), Eigen::RowVector2f(0, 0));
  EXPECT_NE(none[1].front().v.row(1), upper.front().v.row(1));
  EXPECT_EQ(none[1].front().v.row(4), upper.front().v.row(4));
}

// Turning by RoPE keeps angles: keys merged before it and turned are the keys merged behind it, but for fp16.
TEST(MergedLayers, KeysBeforeRopeAreMergedAlike) {
  const LayerTensors lower = testing::random_layer(1, 8, 16, 1), upper = testing::random_layer(1, 8, 16, 2);
  const auto merged = merged_layers({&lower, &upper}, 8, 0);
  HeadTensors head = merged[1].front();
  for (std::int64_t position = 0; position < 8; ++position) {
    head.rope.rotate({head.k_pre.row(position).data(), 16}, static_cast<double>(position));
  }
  EXPECT_TRUE(head.k_pre.isApprox(head.k_post, 2e-3F));
}

}  // namespace
}  // namespace kvtide::kv

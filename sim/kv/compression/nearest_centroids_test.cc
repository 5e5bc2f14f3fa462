#include "kv/compression/nearest_centroids.h"

#include <gtest/gtest.h>

#include "kv/testing/random_layer.h"

namespace kvtide::kv {
namespace {

// 3 lies nearer to 4 than to 1; 2.5 lies halfway, as near to 1 as to 4 and to a second 1.
TEST(NearestCentroids, TakeTheFirstOfEquallyNear) {
  RowMatrix rows(2, 1);
  rows << 3, 2.5F;
  RowMatrix centroids(3, 1);
  centroids << 1, 4, 1;
  EXPECT_EQ(nearest_centroids(rows, centroids), (std::vector<std::int64_t>{1, 0}));
}

// 35 centroids (two registers and three) in 8 channels against float64: none is farther than another by more than rounding.
TEST(NearestCentroids, NoneIsNearer) {
  const LayerTensors layer = testing::random_layer(1, 100, 8, 12);
  const RowMatrix& rows = layer[0].v;
  const RowMatrix centroids = layer[0].k_post.topRows(35);
  const std::vector<std::int64_t> found = nearest_centroids(rows, centroids);
  for (std::int64_t row = 0; row < rows.rows(); ++row) {
    const Eigen::VectorXd distances =
        (centroids.cast<double>().rowwise() - rows.row(row).cast<double>()).rowwise().squaredNorm();
    EXPECT_NEAR(distances[found[static_cast<std::size_t>(row)]], distances.minCoeff(), 1e-5) << row;
  }
}

}  // namespace
}  // namespace kvtide::kv

#include "kv/compression/neighbour_merge.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kv/compression/compression.h"

namespace kvtide::kv {
namespace {

HeadTensors keys_of(const std::vector<std::pair<float, float>>& keys) {
  HeadTensors head;
  head.k_post.resize(static_cast<std::int64_t>(keys.size()), 2);
  for (std::size_t row = 0; row < keys.size(); ++row) {
    head.k_post.row(static_cast<std::int64_t>(row)) << keys[row].first, keys[row].second;
  }
  head.k_pre = head.k_post;
  head.v = head.k_post;
  head.q_post.resize(0, 2);
  return head;
}

// Kept 0 and 5. Cosines of neighbours: 1, 1, 0, 1, 1: at 0.9 positions 1 and 2 go to 0, 3 and 4 to 5.
TEST(NeighbourSets, AGapIsSharedWhereKeysDiffer) {
  const HeadTensors head = keys_of({{1, 0}, {2, 0}, {3, 0}, {0, 1}, {0, 2}, {0, 3}});
  EXPECT_EQ(neighbour_sets(head, {{1, 5}}, {0, 5}, 0.9), (std::vector<NeighbourSet>{{1, 2}, {3, 4}}));
}

// Kept 0 and 3, neighbours 0.7071 alike with the middle pair at 1: both ends reach; the first of the two least links cuts, so
// all go to position 3. At 0.8 neither end reaches anything.
TEST(NeighbourSets, WhereBothEndsReachTheLeastCosineCuts) {
  const HeadTensors head = keys_of({{1, 0}, {1, 1}, {1, 1}, {0, 1}});
  EXPECT_EQ(neighbour_sets(head, {{1, 3}}, {0, 3}, 0.5), (std::vector<NeighbourSet>{{}, {1, 2}}));
  EXPECT_EQ(neighbour_sets(head, {{1, 3}}, {0, 3}, 0.8), (std::vector<NeighbourSet>{{}, {}}));
}

// Gaps at the ends of the text have one neighbour only.
TEST(NeighbourSets, GapsAtTheEndsGoToTheirOnlyNeighbour) {
  const HeadTensors head = keys_of({{1, 0}, {1, 0}, {1, 0}});
  EXPECT_EQ(neighbour_sets(head, {{0, 1}, {2, 3}}, {1}, 1), (std::vector<NeighbourSet>{{0, 2}}));
}

// The header's example, with a second member 2 away on the other side: s = 2, both 0.6065.
TEST(GaussianWeights, FallWithTheDistanceOverItsMean) {
  const HeadTensors head = keys_of({{1, 0}, {3, 0}, {-1, 0}, {1, 0}});
  const std::vector<double> weights = gaussian_weights(head.k_post, 0, {1, 2});
  EXPECT_NEAR(weights[0], 0.606531, 1e-6);
  EXPECT_NEAR(weights[1], 0.606531, 1e-6);
  EXPECT_EQ(gaussian_weights(head.k_post, 0, {3}), (std::vector<double>{1}));  // the same key
}

// Key and value (1 + 0.6065 * 3) / 1.6065 = 1.7551, bias ln 2, 2 B for the count.
TEST(RestNeighbours, MakesOneEntryOfARun) {
  Compression setting;
  setting.block_size = 1;
  setting.sinks = setting.window = 0;
  setting.protects_filling_block = false;
  setting.stages = {
      Evict{.granularity = Granularity::token, .keep = 500000, .rest = Rest::neighbours, .similarity = 0.9}};
  const LayerTensors layer{keys_of({{1, 0}, {3, 0}})};
  const HeadCache head = compress_layer(setting, 2, 1, 2, {{2, 1}}, &layer).heads.front();
  EXPECT_NEAR(head.entries->k(0, 0), 1.7551, 1e-3);
  EXPECT_NEAR(head.entries->v(0, 0), 1.7551, 1e-3);
  EXPECT_NEAR(head.entries->bias[0], std::log(2.0), 1e-6);
  EXPECT_EQ(head.entries->entry_of, (std::vector<std::int32_t>{0, 0}));
  EXPECT_EQ(head.segments.front().k_metadata, 2);
}

}  // namespace
}  // namespace kvtide::kv

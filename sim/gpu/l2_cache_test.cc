#include "gpu/l2_cache.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvtide::gpu {
namespace {

TEST(L2Cache, SweepThatFitsHitsAlways) {
  EXPECT_EQ(cyclic_hit_rate(0, 100), 1);
  EXPECT_EQ(cyclic_hit_rate(100, 100), 1);
}

// Squared oversubscription 2: h = exp(-2 (1 - h)). The final-size equation of an epidemic with R0 = 2 is the same with z = 1 -
// h; its root is 0.7968 (tabulated widely), so h = 0.2032. With R0 = 4, z = 0.9802.
TEST(L2Cache, LargerSweepFollowsTheFinalSizeEquation) {
  EXPECT_NEAR(cyclic_hit_rate(100 * std::sqrt(2), 100), 0.2032, 1e-4);
  EXPECT_NEAR(cyclic_hit_rate(200, 100), 0.0198, 1e-4);
}

TEST(L2Cache, HitRateFallsContinuouslyBeyondCapacity) {
  double previous = 1;
  for (double swept = 100.001; swept < 1000; swept *= 1.01) {
    const double hit_rate = cyclic_hit_rate(swept, 100);
    EXPECT_LT(hit_rate, previous) << swept;
    EXPECT_NEAR(hit_rate, std::exp(-swept * swept / 1e4 * (1 - hit_rate)), 1e-9) << swept;
    previous = hit_rate;
  }
  // Just above the edge h ~ 1 - 2 (x^2 - 1): steep, but no jump.
  EXPECT_NEAR(cyclic_hit_rate(100.1, 100), 0.996, 1e-4);
}

}  // namespace
}  // namespace kvtide::gpu

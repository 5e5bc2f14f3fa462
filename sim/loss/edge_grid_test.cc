#include "loss/edge_grid.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace kvtide::loss {
namespace {

/// Random blocks kept, boundaries at `boundary` mod `block_size`.
std::vector<double> block_mask(std::int64_t positions, std::int64_t block_size, std::int64_t boundary,
                               std::uint64_t seed) {
  RandomStream random(seed, "test.block_mask");
  std::vector<double> kept;
  for (std::int64_t block = 0; block <= positions / block_size + 1; ++block)
    kept.push_back(random.uniform() < 0.5 ? 0 : 1);
  std::vector<double> mask;
  for (std::int64_t j = 0; j < positions; ++j) {
    mask.push_back(kept[static_cast<std::size_t>((j + block_size - boundary) / block_size)]);
  }
  return mask;
}

TEST(JumpPositions, AreWhereKeysBecomeWhollyLostAndEachPlaceCountsOnce) {
  EXPECT_EQ(jump_positions({{0, 0.9, 0.1, 1, 1}, {0.2, 1, 1, 0, 0}}), (std::vector<std::int64_t>{1, 3}));
  EXPECT_TRUE(jump_positions({{0, 0.999, 0, 0.999}}).empty());
  // A share that was added up in float64 may miss 1 by some 1e-13.
  EXPECT_EQ(jump_positions({{0, 1 - 5e-13}}), (std::vector<std::int64_t>{1}));
  EXPECT_TRUE(jump_positions({{0, 1 - 2e-12}}).empty());
}

TEST(JumpGrid, IsTheGreatestCommonDivisorOfTheDifferences) {
  const JumpGrid grid = jump_grid(std::vector<std::int64_t>{17, 81, 209, 337});
  EXPECT_EQ(grid.edges, 4);
  EXPECT_EQ(grid.period, 64);
  EXPECT_EQ(grid.boundary, 17);
  // sum over g >= 64 of g^-3 lies between the integrals from 64 and from 63; zeta(3) = 1.2020569 (Apery).
  EXPECT_GT(grid.chance, 0.5 / (64.0 * 64) / 1.2020569);
  EXPECT_LT(grid.chance, 0.5 / (63.0 * 63) / 1.2020569);
}

TEST(JumpGrid, OneStrayJumpDestroysIt) {
  EXPECT_EQ(jump_grid(std::vector<std::int64_t>{17, 81, 82, 337}).period, 1);
  EXPECT_EQ(jump_grid(std::vector<std::int64_t>{17}).period, 0);
}

// T20: random block keep on an aligned grid: EI(B) = EI(B/2) = 1, EI(2B) and EI(B - 1) small; the argument is the
// boundary.
TEST(EdgeIndex, RandomBlocksConcentrateOnTheirGridAndItsDivisors) {
  const std::vector<double> jumps = squared_jumps({block_mask(4096, 64, 17, 1)});
  EXPECT_NEAR(edge_index(jumps, 64).index, 1, 1e-12);
  EXPECT_NEAR(edge_index(jumps, 64).boundary, 17, 1e-9);
  EXPECT_NEAR(edge_index(jumps, 64).share, 1, 1e-12);
  EXPECT_NEAR(edge_index(jumps, 32).index, 1, 1e-12);
  // About 32 jumps of equal size: without a grid the index is about 1/sqrt(32) = 0.18.
  EXPECT_LT(edge_index(jumps, 128).index, 0.45);
  EXPECT_LT(edge_index(jumps, 63).index, 0.45);
  EXPECT_EQ(search_edge_index(jumps, 2048).period, 64);
}

TEST(EdgeIndex, BoundaryAtZeroIsZeroNotThePeriod) {
  EXPECT_NEAR(edge_index(squared_jumps({block_mask(1024, 64, 0, 2)}), 64).boundary, 0, 1e-6);
}

TEST(EdgeIndex, NothingJumpsNothingFound) {
  const std::vector<double> jumps = squared_jumps({std::vector<double>(100, 0.3)});
  EXPECT_EQ(edge_index(jumps, 10).index, 0);
  EXPECT_EQ(edge_index(jumps, 10).p, 1);
  EXPECT_EQ(search_edge_index(jumps, 50).period, 0);
}

TEST(EdgeIndex, TokenMaskHasNone) {
  const std::vector<double> jumps = squared_jumps({block_mask(4096, 1, 0, 3)});
  EXPECT_LT(search_edge_index(jumps, 2048).index, 0.25);
}

TEST(MaskLike, NeedsTwoLevelsAndLittleBetween) {
  EXPECT_TRUE(is_mask_like({block_mask(512, 16, 0, 4)}));
  EXPECT_FALSE(is_mask_like({std::vector<double>(64, 0.5)}));
  std::vector<double> ramp(100);
  for (std::size_t j = 0; j < ramp.size(); ++j) ramp[j] = static_cast<double>(j);
  EXPECT_FALSE(is_mask_like({ramp}));
  std::vector<double> nearly(100, 0.0);  // 90 low or high, 10 between: just enough; 11 between: not
  for (std::size_t j = 0; j < 45; ++j) nearly[j] = 1;
  for (std::size_t j = 45; j < 55; ++j) nearly[j] = 0.5;
  EXPECT_TRUE(is_mask_like({nearly}));
  nearly[55] = 0.5;
  EXPECT_FALSE(is_mask_like({nearly}));
}

}  // namespace
}  // namespace kvtide::loss

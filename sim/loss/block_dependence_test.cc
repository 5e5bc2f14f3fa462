#include "loss/block_dependence.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "loss/testing/autoregressive_noise.h"

namespace kvtide::loss {
namespace {

OutsideScan scan_of(const std::vector<double>& loss, double first, double step) {
  OutsideScan scan;
  for (std::size_t i = 0; i < loss.size(); ++i) {
    scan.points.push_back({.at = first + step * static_cast<double>(i),
                           .success = loss[i] > 5 ? 0.0 : 1.0,
                           .loss = loss[i],
                           .repeats = 1});
  }
  return scan;
}

/// Blocks of 64 whose boundaries are at `boundary` mod 64; those listed are lost.
std::vector<double> lost_blocks(std::int64_t places, double first, double step, double boundary,
                                const std::vector<int>& lost) {
  RandomStream random(2, "test.block_noise");
  std::vector<double> loss;
  for (std::int64_t i = 0; i < places; ++i) {
    const auto block = static_cast<int>(std::floor((first + step * static_cast<double>(i) - boundary) / 64));
    const bool is_lost = std::find(lost.begin(), lost.end(), block) != lost.end();
    loss.push_back((is_lost ? 10 : 0) + 0.2 * random.uniform());
  }
  return loss;
}

TEST(BlockDependence, LostBlocksAndTheirBoundaryAreFound) {
  // First place 256; blocks begin at 56 mod 64: 3 holds 248..311, 4 312..375, 7 504..567, 9 632..695.
  const BlockDependence found = find_block_dependence(scan_of(lost_blocks(60, 256, 8, 56, {4, 7, 9}), 256, 8), 1);
  ASSERT_TRUE(found.is_found()) << found.p << " " << found.edge_index << " " << found.variance_share;
  EXPECT_EQ(found.block_size, 64);
  EXPECT_EQ(found.boundary, 56);
  ASSERT_GE(found.blocks.size(), 7U);
  EXPECT_EQ(found.blocks[0].begin, 256);
  EXPECT_EQ(found.blocks[0].places, 7);
  EXPECT_EQ(found.blocks[1].begin, 312);
  EXPECT_EQ(found.blocks[1].places, 8);
  EXPECT_EQ(found.blocks[1].mean_success, 0);
  EXPECT_EQ(found.blocks[2].mean_success, 1);
}

// The boundary may be any: the scan's step is its resolution.
TEST(BlockDependence, BoundaryAtZeroIsNotTheLastResidue) {
  const BlockDependence found = find_block_dependence(scan_of(lost_blocks(60, 256, 8, 0, {4, 6, 9}), 256, 8), 1);
  ASSERT_TRUE(found.is_found());
  EXPECT_EQ(found.boundary, 0);
}

// Dips narrower than a block depend on the place in it: the mean of a block explains little.
TEST(BlockDependence, DipsWithinBlocksAreNone) {
  std::vector<double> loss;
  for (int i = 0; i < 60; ++i) loss.push_back(i % 8 == 7 ? 10 : 0);
  EXPECT_FALSE(find_block_dependence(scan_of(loss, 256, 8), 1).is_found());
}

TEST(BlockDependence, NoiseAndConstantsAreNone) {
  for (const double rho : {0.0, 0.95}) {
    int alarms = 0;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      alarms += find_block_dependence(scan_of(autoregressive(52, rho, seed), 0, 8), seed).is_found() ? 1 : 0;
    }
    EXPECT_EQ(alarms, 0) << rho;  // 2 % by p alone, and four fifths of the variance with it
  }
  EXPECT_TRUE(std::isnan(find_block_dependence(scan_of(std::vector<double>(52, 1.0), 0, 8), 1).block_size));
  EXPECT_TRUE(std::isnan(find_block_dependence({}, 1).block_size));
}

}  // namespace
}  // namespace kvtide::loss

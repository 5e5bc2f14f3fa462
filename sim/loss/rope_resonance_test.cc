#include "loss/rope_resonance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "model/rope_wavelengths.h"

namespace kvtide::loss {
namespace {

std::vector<double> waves(double theta, std::int64_t rotary_dim) {
  return rope_wavelengths({.theta = theta, .rotary_dim = rotary_dim, .scaling = {}}, 4096);
}

double wavelength_of(double radians) {
  return 2 * std::numbers::pi / radians;
}

// T7: |sin(w theta / 2) / (w sin(theta / 2))| at (w, theta) = (4, 1), (8, 0.1), (8, 2 pi / 8).
TEST(PooledAmplitude, IsTheMeanOfRotatedCopies) {
  EXPECT_NEAR(std::abs(pooled_amplitude(4, wavelength_of(1))), 0.4742, 5e-5);
  EXPECT_NEAR(std::abs(pooled_amplitude(8, wavelength_of(0.1))), 0.9740, 5e-5);
  EXPECT_NEAR(pooled_amplitude(8, 8), 0, 1e-15);
  EXPECT_NEAR(pooled_amplitude(16, 8), 0, 1e-15);
  EXPECT_EQ(pooled_amplitude(1, 10), 1);
  // By summing four turned copies: |sum e^(i j)| / 4, j = 0..3.
  double real = 0;
  double imaginary = 0;
  for (int j = 0; j < 4; ++j) {
    real += std::cos(j) / 4;
    imaginary += std::sin(j) / 4;
  }
  EXPECT_NEAR(std::abs(pooled_amplitude(4, wavelength_of(1))), std::hypot(real, imaginary), 1e-15);
}

// T7, mean power kept at d = 128 (width 8, 16, 128).
TEST(PooledAmplitude, PowerKeptFallsWithTheBlock) {
  const auto kept = [](double theta, double width) { return block_resonance(waves(theta, 128), width).energy_kept; };
  EXPECT_NEAR(kept(1e4, 8), 0.866, 6e-4);
  EXPECT_NEAR(kept(1e4, 16), 0.791, 6e-4);
  EXPECT_NEAR(kept(1e4, 128), 0.566, 6e-4);
  EXPECT_NEAR(kept(5e5, 8), 0.903, 6e-4);
  EXPECT_NEAR(kept(5e5, 128), 0.693, 6e-4);
  // Log-uniform wavelengths: 1 - (ln B - 0.85) / ln theta, good to 0.004 at d 128.
  for (const double width : {16.0, 64.0, 256.0})
    EXPECT_NEAR(kept(1e6, width), 1 - (std::log(width) - 0.85) / std::log(1e6), 0.004);
}

// The bowl of Llama-3.1 (block-scale wavelengths are those of theta 5e5) at B = 16, offsets from the middle 7.5, 6.5, .. 0.5.
TEST(PostRopePoolLoss, IsABowl) {
  const std::vector<double> wavelengths = rope_wavelengths({.theta = 5e5,
                                                            .rotary_dim = 128,
                                                            .scaling = {.type = "llama3",
                                                                        .factor = 8,
                                                                        .original_positions = 8192,
                                                                        .low_freq_factor = 1,
                                                                        .high_freq_factor = 4,
                                                                        .short_factor = {},
                                                                        .long_factor = {}}},
                                                           131072);
  const std::vector<double> expected{0.208, 0.178, 0.156, 0.143, 0.135, 0.129, 0.122, 0.118};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(post_rope_pool_loss(wavelengths, 16, 7.5 - static_cast<double>(i)), expected[i], 6e-4) << i;
  }
  EXPECT_NEAR(block_resonance(wavelengths, 16).post_edge_over_centre, 1.76, 0.006);
  EXPECT_NEAR(block_resonance(wavelengths, 64).post_edge_over_centre, 1.45, 0.006);
}

// Mean over the block of 1 + D^2 - 2 D cos(w x) is 1 - D^2.
TEST(PostRopePoolLoss, AveragesToTheLostEnergy) {
  const std::vector<double> wavelengths = waves(1e4, 128);
  double mean = 0;
  for (int j = 0; j < 32; ++j) mean += post_rope_pool_loss(wavelengths, 32, j - 15.5) / 32;
  EXPECT_NEAR(mean, 1 - block_resonance(wavelengths, 32).energy_kept, 1e-12);
}

// T8: at the edge of 8 with one radian a token the score is cos(3.5) = -0.936 of the truth: 2 - 2 cos 3.5 = 3.873.
TEST(PreRopePoolLoss, IsZeroInTheMiddleAndWorstAtTheEdge) {
  const std::vector<double> one{wavelength_of(1)};
  EXPECT_EQ(pre_rope_pool_loss(one, 0), 0);
  EXPECT_NEAR(pre_rope_pool_loss(one, 3.5), 2 - 2 * -0.936457, 1e-6);
  EXPECT_NEAR(std::cos(0.1 * 7.5), 0.732, 5e-4);  // w = 16, theta = 0.1
}

// Nearest pairs and beats of theta 1e4, d 128 (blocks 16, 32, 64, 128): index, wavelength, |D|, beat.
TEST(BlockResonance, BeatsOfTheKnownSpectra) {
  struct Row {
    double theta;
    std::int64_t dim;
    double block;
    std::int64_t pair;
    double wavelength;
    double amplitude;
    double beat;
  };
  for (const Row& row : {Row{1e4, 128, 16, 6, 14.9, 0.069, 217},
                         {1e4, 128, 32, 11, 30.6, 0.044, 698},
                         {1e4, 128, 64, 16, 62.8, 0.018, 3442},
                         {1e4, 128, 128, 21, 129.0, 0.008, 16085},
                         {1e4, 256, 16, 13, 16.0, 0.001, 22431},
                         {1e6, 128, 128, 14, 129.0, 0.008, 16085},
                         {1e5, 64, 64, 6, 54.4, 0.142, 363}}) {
    const BlockResonance found = block_resonance(waves(row.theta, row.dim), row.block);
    EXPECT_EQ(found.pair, row.pair) << row.theta << " " << row.block;
    EXPECT_NEAR(found.wavelength, row.wavelength, 0.051);
    EXPECT_NEAR(found.amplitude, row.amplitude, 6e-4);
    EXPECT_NEAR(found.beat / row.beat, 1, 3e-3) << found.beat;
  }
}

// Twice the group against the wavelength: theta 1e4, d 128, groups of 32: pair 16 (62.8), 64 / 62.83 off by 0.0186, 32 / 0.0186 = 1,721.
TEST(BlockResonance, QuantizerGroupsSeePhasesModuloHalfATurn) {
  const BlockResonance found = block_resonance(waves(1e4, 128), 32);
  EXPECT_EQ(found.quantizer_pair, 16);
  EXPECT_NEAR(found.quantizer_beat, 1721, 1);
  EXPECT_EQ(found.quantizer_pairs, 9);
  EXPECT_EQ(found.pairs_within, 12);
  EXPECT_EQ(found.pairs_near, 10);
}

// Beats 3,442 / 64 = 54 blocks and 217 / 16 = 13.6 blocks: on either side of 16.
TEST(BlockResonance, ResonatesFromSixteenBlocksOn) {
  const std::vector<double> wavelengths = waves(1e4, 128);
  EXPECT_TRUE(block_resonance(wavelengths, 64).resonates);
  EXPECT_FALSE(block_resonance(wavelengths, 16).resonates);
  const auto sizes = resonant_block_sizes(wavelengths, 60, 66);
  ASSERT_EQ(sizes.size(), 1U);  // 63 is nearest to 62.83
  EXPECT_EQ(sizes[0].block_size, 63);
}

TEST(BeatPeriod, WholeTurnsNeverDrift) {
  EXPECT_TRUE(std::isinf(beat_period(64, 32)));
  EXPECT_NEAR(beat_period(64, 63), 64 / (1.0 / 63), 1e-6);
}

}  // namespace
}  // namespace kvtide::loss

#include "loss/spectral_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "base/random.h"
#include "loss/testing/autoregressive_noise.h"

namespace kvtide::loss {
namespace {

// m = 2: P(g > x) = 2 (1 - x) for x in 1/2..1. m = 3, x = 0.5: 3 * 0.25 = 0.75; x = 0.4: 3 * 0.36 - 3 * 0.04 = 0.96.
TEST(FisherG, SmallCasesByHand) {
  EXPECT_NEAR(fisher_g_p(0.75, 2), 0.5, 1e-12);
  EXPECT_NEAR(fisher_g_p(0.5, 3), 0.75, 1e-12);
  EXPECT_NEAR(fisher_g_p(0.4, 3), 0.96, 1e-12);
  EXPECT_EQ(fisher_g_p(1.0 / 3, 3), 1);
  EXPECT_EQ(fisher_g_p(1, 3), 0);
}

// Critical values at one in a thousand for N = 512, 1,024, 4,096, 16,384.
TEST(FisherG, CriticalValues) {
  EXPECT_NEAR(fisher_g_p(0.0478, 255), 0.001, 2e-5);
  EXPECT_NEAR(fisher_g_p(0.0254, 511), 0.001, 3e-5);
  EXPECT_NEAR(fisher_g_p(0.00708, 2047), 0.001, 2e-5);
  EXPECT_NEAR(fisher_g_p(0.00194, 8191), 0.001, 4e-5);
  EXPECT_EQ(fisher_g_p(0.0006, 8191), 1);
}

TEST(Periodogram, FindsAWaveInNoise) {
  std::vector<double> wave = autoregressive(1024, 0, 3);
  for (std::size_t j = 0; j < wave.size(); ++j)
    wave[j] += 0.6 * std::sin(2 * std::numbers::pi * static_cast<double>(j) / 64);
  const SpectralLine line = search_periodogram(wave);
  EXPECT_EQ(line.period, 64);
  EXPECT_LT(line.p, 1e-6);
  EXPECT_EQ(line.lines, 511);
}

// A line of its own frequency alone: all power in it.
TEST(Periodogram, PureWaveIsOneLineAndAConstantNone) {
  std::vector<double> wave;
  for (int j = 0; j < 128; ++j) wave.push_back(std::cos(2 * std::numbers::pi * j / 16));
  EXPECT_NEAR(search_periodogram(wave).power, 1, 1e-12);
  EXPECT_EQ(search_periodogram(std::vector<double>(128, 3.0)).p, 1);
  EXPECT_EQ(search_periodogram(std::vector<double>(7, 0.0)).period, 0);
}

// 200 runs at 1 %: 2 expected, more than 8 has probability 0.03 %. Raw AR(1) noise fails it, which is why profiles are pre-whitened.
TEST(Periodogram, WhitenedNoiseRarelyHasALine) {
  for (const double rho : {0.0, 0.95, 0.99}) {
    int alarms = 0;
    int raw_alarms = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      const std::vector<double> noise = autoregressive(1024, rho, seed);
      alarms += search_periodogram(prewhitened(noise)).p <= 0.01 ? 1 : 0;
      raw_alarms += search_periodogram(noise).p <= 0.01 ? 1 : 0;
    }
    EXPECT_LE(alarms, 8) << rho;
    if (rho > 0) {
      EXPECT_GT(raw_alarms, 150);
    }
  }
}

TEST(Prewhitened, IsOneShorterAndKeepsAPeriod) {
  std::vector<double> wave = autoregressive(2048, 0.95, 5);
  for (std::size_t j = 0; j < wave.size(); ++j) wave[j] += std::sin(2 * std::numbers::pi * static_cast<double>(j) / 32);
  const std::vector<double> white = prewhitened(wave);
  ASSERT_EQ(white.size(), 2047U);
  EXPECT_NEAR(search_periodogram(white).period, 32, 0.5);
}

std::vector<double> scattered(std::size_t count, double extent, std::uint64_t seed) {
  RandomStream random(seed, "test.scattered");
  std::vector<double> at;
  for (std::size_t i = 0; i < count; ++i) at.push_back(extent * random.uniform());
  std::sort(at.begin(), at.end());
  return at;
}

TEST(LombScargle, FindsAWaveAtUnevenPlaces) {
  const std::vector<double> at = scattered(120, 640, 2);
  RandomStream random(4, "test.noise");
  std::vector<double> values;
  for (const double place : at)
    values.push_back(5 + std::sin(2 * std::numbers::pi * place / 64 + 1) + 0.5 * random.normal());
  const SpectralLine line = search_lomb_scargle(at, values, 16);
  EXPECT_NEAR(line.period, 64, 2);
  EXPECT_LT(line.p, 1e-6);
  // The wave's variance is 1/2, the noise's 1/4: two thirds.
  EXPECT_NEAR(line.power, 2.0 / 3, 0.1);
}

TEST(LombScargle, PureWaveExplainsEverything) {
  const std::vector<double> at = scattered(50, 300, 6);
  std::vector<double> values;
  // A frequency on the grid: lowest + k (highest - lowest) / count would be needed exactly; near it the share is nearly 1.
  for (const double place : at) values.push_back(std::sin(2 * std::numbers::pi * place / 40));
  EXPECT_GT(search_lomb_scargle(at, values, 10).power, 0.98);
  EXPECT_EQ(search_lomb_scargle(at, std::vector<double>(50, 1.0), 10).p, 1);
}

// Places that crowd on an eighth of the cycle, where sine and cosine go together: the wave as long as the extent, which is on the grid,
// still explains everything, and no other does.
TEST(LombScargle, CrowdedPlacesMixNoSineWithCosine) {
  std::vector<double> at, values;
  for (int place = 0; place <= 10; ++place) at.push_back(place);
  for (const double place : {23.0, 41.0, 60.0, 80.0}) at.push_back(place);
  for (const double place : at) values.push_back(std::cos(2 * std::numbers::pi * place / 80 + 0.7));
  const SpectralLine line = search_lomb_scargle(at, values, 20);
  EXPECT_NEAR(line.power, 1, 1e-9);
  EXPECT_NEAR(line.period, 80, 1e-6);
}

// N = 5, z = 0.5, W = 1 x sqrt(4 pi / (4 pi)) = 1: single = 0.5; gamma = sqrt(2/5) Gamma(2.5) / Gamma(2) = 0.63246 * 1.32934 = 0.84075;
// tau = 0.84075 * sqrt(0.5) * sqrt(0.5 * 4 * 0.5) = 0.59450; 1 - 0.5 exp(-0.59450) = 0.72408.
TEST(Baluev, BoundByHand) {
  EXPECT_NEAR(baluev_p(0.5, 5, 1 / (4 * std::numbers::pi), 1), 0.72408, 2e-5);
}

// An upper bound: at most 1 % of white scans may fall below 1 %; of 200, more than 8 has probability 0.03 %.
TEST(LombScargle, WhiteNoiseRarelyHasAWave) {
  int alarms = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<double> at = scattered(60, 480, seed);
    alarms += search_lomb_scargle(at, autoregressive(60, 0, seed), 16).p <= 0.01 ? 1 : 0;
  }
  EXPECT_LE(alarms, 8);
}

}  // namespace
}  // namespace kvtide::loss

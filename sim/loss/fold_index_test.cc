#include "loss/fold_index.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "base/random.h"
#include "loss/phase_profile.h"

namespace kvtide::loss {
namespace {

std::vector<double> square_wave(std::int64_t positions, std::int64_t half_period, std::int64_t offset = 0) {
  std::vector<double> wave;
  for (std::int64_t j = 0; j < positions; ++j) wave.push_back((j + offset) / half_period % 2 == 0 ? 0 : 1);
  return wave;
}

std::vector<double> white(std::int64_t positions, std::uint64_t seed) {
  RandomStream random(seed, "test.white");
  std::vector<double> noise;
  for (std::int64_t j = 0; j < positions; ++j) noise.push_back(random.normal());
  return noise;
}

TEST(Detrend, LeavesAPeriodAndTakesALine) {
  std::vector<double> profile = square_wave(64, 4);
  for (std::size_t j = 0; j < profile.size(); ++j) profile[j] += 3 * static_cast<double>(j);
  for (const std::int64_t period : {8, 16}) {
    const Detrended clean = detrend(profile, period);
    ASSERT_EQ(clean.first, period / 2);
    ASSERT_EQ(static_cast<std::int64_t>(clean.values.size()), 64 - period);
    for (std::size_t i = 0; i < clean.values.size(); ++i) {
      const double wave = (i + static_cast<std::size_t>(clean.first)) / 4 % 2 == 0 ? -0.5 : 0.5;
      ASSERT_NEAR(clean.values[i], wave, 1e-12);
    }
  }
}

TEST(Detrend, WindowLongerThanTheProfileLeavesNothing) {
  EXPECT_TRUE(detrend(std::vector<double>(8, 1.0), 8).values.empty());
  EXPECT_EQ(detrend(std::vector<double>(9, 1.0), 8).values.size(), 1U);
}

// T1: the square wave of alternate blocks has period 2B, and none of B.
TEST(PeriodicityIndex, SquareWaveRepeatsAfterTwoBlocksNotOne) {
  const std::vector<double> wave = square_wave(64 * 16, 32);
  EXPECT_NEAR(level_statistics(wave, 64, 1).index, 1, 1e-12);
  EXPECT_NEAR(level_statistics(wave, 32, 1).index, 0, 0.02);
}

// T19: nothing varies, so the index is 0 by definition.
TEST(PeriodicityIndex, ConstantProfileHasNone) {
  for (const double level : {0.0, 0.3, 1.0}) {
    const LevelStatistics none = level_statistics(std::vector<double>(512, level), 16, 1);
    EXPECT_EQ(none.index, 0);
    EXPECT_EQ(none.ratio, 0);
    EXPECT_EQ(none.p, 1);
  }
}

// T10: the mean over all 2B offsets is one half everywhere: no index, though each run has 1.
TEST(PeriodicityIndex, MeanOverAllOffsetsIsFlat) {
  std::vector<double> mean(512, 0.0);
  for (std::int64_t offset = 0; offset < 64; ++offset) {
    const std::vector<double> wave = square_wave(512, 32, offset);
    EXPECT_NEAR(level_statistics(wave, 64, 1, offset).index, 1, 1e-12);
    for (std::size_t j = 0; j < mean.size(); ++j) mean[j] += wave[j] / 64;
  }
  for (const double value : mean) ASSERT_NEAR(value, 0.5, 1e-12);
  EXPECT_EQ(level_statistics(mean, 64, 1).index, 0);
}

// 1 - (1 - eta)(N - 1)/(N - bins): white noise has eta = (bins - 1)/(N - 1) on average, which gives exactly 0.
TEST(PeriodicityIndex, MeanOnWhiteNoiseIsZero) {
  EXPECT_NEAR(periodicity_index(7.0 / 999, 1000, 64), 0, 1e-15);
  EXPECT_NEAR(periodicity_index(1, 1000, 64), 1, 1e-15);
  double sum = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) sum += level_statistics(white(512, seed), 32, seed).index;
  // One index has a standard deviation of about sqrt(2 * 7) / 512 = 0.0073; the mean of 200 one of 0.0005.
  EXPECT_NEAR(sum / 200, 0, 0.003);
}

TEST(RotationP, IsUniformOnWhiteNoise) {
  std::int64_t below_tenth = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed)
    below_tenth += rotation_p(white(512, seed), 0, 32, 199, seed) <= 0.1 ? 1 : 0;
  // 400 at 0.1: 40 expected, standard deviation 6.
  EXPECT_GE(below_tenth, 20);
  EXPECT_LE(below_tenth, 60);
}

TEST(RotationP, IsTinyForARepetition) {
  EXPECT_LT(rotation_p(square_wave(1024, 32), 0, 64, 999, 1), 1e-3);
  EXPECT_EQ(rotation_p(square_wave(60, 32), 0, 64, 999, 1), 1);  // fewer than two rows
}

TEST(SearchLevel, FindsTheShortestPeriodOfASpikeComb) {
  // Spikes of 7 in 64, as block eviction leaves where edges cut a fact.
  std::vector<double> comb = white(2048, 5);
  for (std::size_t j = 0; j < comb.size(); ++j) comb[j] = 0.05 * comb[j] + (j % 64 < 7 ? 1 : 0);
  const BlindLevel search = search_level(comb, 2048 / 6);
  EXPECT_EQ(search.period, 64);
  // Periods 2..45 count one by one, longer ones by frequency: sqrt(2048) + 2048 (1/sqrt(2048) - 1/341) = 84.5.
  EXPECT_NEAR(search.independent_periods, 84.5, 0.1);
}

// Every other position loses more: its multiples 4, 6, ... fold as well.
TEST(SearchLevel, FindsAnAlternation) {
  std::vector<double> alternation = white(2048, 5);
  for (std::size_t j = 0; j < alternation.size(); ++j)
    alternation[j] = 0.05 * alternation[j] + static_cast<double>(j % 2);
  EXPECT_EQ(search_level(alternation, 2048 / 6).period, 2);
}

/// Pools of `width` that begin anew in every block lose most at their ends: 1 there, 0 between, plus noise.
std::vector<double> pools_in_blocks(std::int64_t positions, std::int64_t block, std::int64_t width, double noise,
                                    std::uint64_t seed) {
  std::vector<double> loss = white(positions, seed);
  for (std::int64_t j = 0; j < positions; ++j) {
    const std::int64_t place = j % block % width;
    double& here = loss[static_cast<std::size_t>(j)];
    here = noise * here + (place == 0 || place == width - 1 ? 1 : 0);
  }
  return loss;
}

// 66 = 16 pools of 4 and one of 2, 54 and 70 likewise: folds at 22, 18 and 35 see a part of the saw-tooth, 125 is twice 62 and one more.
TEST(RepeatingPeriod, IsTheMultipleAtWhichPositionsAgree) {
  EXPECT_EQ(repeating_period(pools_in_blocks(1024, 66, 4, 0.3, 1), 22, 170), 66);
  EXPECT_EQ(repeating_period(pools_in_blocks(1024, 54, 4, 0.3, 1), 18, 170), 54);
  EXPECT_EQ(repeating_period(pools_in_blocks(1024, 70, 4, 0.3, 1), 35, 170), 70);
  EXPECT_EQ(repeating_period(pools_in_blocks(1024, 62, 4, 0.3, 1), 125, 170), 62);
  // The other side: pools that fill their blocks repeat with the pool, and a period found right stays.
  EXPECT_EQ(repeating_period(pools_in_blocks(1024, 64, 4, 0.3, 1), 4, 170), 4);
  EXPECT_EQ(repeating_period(pools_in_blocks(1024, 66, 4, 0.3, 1), 66, 170), 66);
}

// Eight cycles of a wave of 64 positions in 512. At another period q the fold drifts by d = 512 (1 / q - 1 / 64) cycles from its
// first to its last, and sin^2(pi d) / (pi d)^2 of the wave is left; neighbours are those beyond two: 1 / (4 pi^2) = 0.025 at most.
TEST(LevelStatistics, RatioIsOverPeriodsThatTheFoldCanTell) {
  std::vector<double> profile;
  for (int j = 0; j < 512; ++j) profile.push_back(std::sin(2 * std::numbers::pi * j / 64));
  EXPECT_GT(level_statistics(profile, 64, 1).ratio, 40);
}

// A square wave of 63.5 positions repeats exactly after 127. At 64, the nearer of the whole numbers beside its half, its edges drift by
// 220 (1 / 63.5 - 1 / 64) = 0.027 cycles over what detrending leaves of 284 positions: two edges blur a twentieth of them.
TEST(SearchLevel, TakesTheLongerPartWhereItFoldsBetter) {
  std::vector<double> profile;
  for (int j = 0; j < 284; ++j) profile.push_back(2 * j % 127 < 63.5 ? 1 : -1);
  EXPECT_EQ(search_level(profile, 134).period, 64);
}

// Eight positions repeat with variance 1, and what changes its sign with every eight of them adds `of_double`: 1 / (1 + of_double)
// repeats at 8, all of it at 16. Only where the double has a quarter more to explain does it take the place.
TEST(RepeatingPeriod, ASingleThatExplainsFourFifthsStays) {
  const auto period_with = [](double of_double) {
    std::vector<double> profile;
    for (std::int64_t j = 0; j < 1024; ++j) {
      const double wave = j % 8 < 4 ? 1 : -1;
      const double turning = (j % 2 == 0) == (j % 16 < 8) ? 1 : -1;
      profile.push_back(wave + std::sqrt(of_double) * turning);
    }
    return repeating_period(profile, 8, 170);
  };
  EXPECT_EQ(period_with(0.18), 8);  // 1 / 1.18 = 0.85
  EXPECT_EQ(period_with(0.4), 16);  // 1 / 1.4 = 0.71
}

// Noise has nothing in common from cycle to cycle; an exact repetition has all.
TEST(Repetition, IsOneForACopyAndZeroForNoise) {
  const std::vector<double> noise = white(4096, 3);
  // 64 bins of 64 positions: standard deviation sqrt(2 * 64) / 4096 = 0.0028.
  EXPECT_NEAR(repetition(Detrending(noise), 64), 0, 4 * 0.0028);
  std::vector<double> copies;
  for (std::size_t j = 0; j < 1024; ++j) copies.push_back(noise[j % 50]);
  EXPECT_NEAR(repetition(Detrending(copies), 50), 1, 1e-9);
  EXPECT_EQ(repetition(Detrending(std::vector<double>(1024, 0.7)), 50), 0);
  EXPECT_EQ(repetition(Detrending(copies), 600), 0);  // one cycle
}

TEST(CorrectForSearch, IsTheChanceOfTheBestOfMany) {
  EXPECT_NEAR(correct_for_search(0.01, 2), 1 - 0.99 * 0.99, 1e-15);
  EXPECT_EQ(correct_for_search(1, 100), 1);
  EXPECT_NEAR(correct_for_search(1e-20, 100), 1e-18, 1e-24);
}

}  // namespace
}  // namespace kvtide::loss

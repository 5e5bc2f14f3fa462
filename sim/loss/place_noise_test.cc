#include "loss/place_noise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/random.h"

namespace kvtide::loss {
namespace {

/// `repeats` tries at each of `places` places 5 apart, each of success `chance(at)`.
OutsideScan tries(std::size_t places, std::int64_t repeats, std::uint64_t seed,
                  const std::function<double(double)>& chance) {
  RandomStream random(seed, "test.place_noise");
  OutsideScan scan;
  scan.repeats = repeats;
  for (std::size_t i = 0; i < places; ++i) {
    const double at = 5.0 * static_cast<double>(i);
    double right = 0;
    for (std::int64_t j = 0; j < repeats; ++j) right += random.uniform() < chance(at) ? 1 : 0;
    scan.points.push_back({.at = at, .success = right / static_cast<double>(repeats), .repeats = repeats});
  }
  return scan;
}

// Each is wrong once in a hundred: of 100 scans of coins 1 is expected, and more than 5 have probability 0.0005 (Poisson).
TEST(PlaceNoise, CoinsDifferOnceInAHundred) {
  for (const std::int64_t repeats : {1, 5}) {
    int trends = 0;
    int differ = 0;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      const PlaceNoise noise = place_noise(tries(200, repeats, seed, [](double) { return 0.85; }));
      trends += noise.is_trend() ? 1 : 0;
      differ += noise.differs() ? 1 : 0;
    }
    EXPECT_LE(trends, 5) << repeats;
    EXPECT_LE(differ, 5) << repeats;
  }
}

// From 0.98 to 0.2 over 200 places: variance of the line 0.78^2 / 12 = 0.051 of 0.24 in all, so r = 0.46 and z = 6.5.
TEST(PlaceNoise, AFallOfSuccessIsATrendAndNothingElse) {
  int differ = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const PlaceNoise noise = place_noise(tries(200, 1, seed, [](double at) { return 0.98 - 0.78 * at / 995; }));
    EXPECT_TRUE(noise.is_trend());
    EXPECT_NEAR(noise.first - noise.last, 0.78, 0.4);  // slope's deviation: 0.43 / (sqrt(200) 0.29) = 0.105 a length
    differ += noise.differs() ? 1 : 0;
  }
  EXPECT_LE(differ, 3);
}

// Runs of ten places, always right or never: neighbours differ at one step of ten, r1 about 0.8, z = 11.
TEST(PlaceNoise, RunsOfFailuresAreNoCoins) {
  RandomStream random(1, "test.runs");
  std::vector<double> blocks;
  for (int i = 0; i < 20; ++i) blocks.push_back(random.uniform() < 0.5 ? 1 : 0);
  const auto chance = [&](double at) { return blocks[static_cast<std::size_t>(at / 50)]; };
  EXPECT_TRUE(place_noise(tries(200, 1, 1, chance)).differs());
}

// Every second place fails always: no run, no trend, and single tries show no more. Five equal tries a place do: the sum is 5 a
// place where 1 is expected.
TEST(PlaceNoise, RepeatsTellPlacesApart) {
  const auto chance = [](double at) { return static_cast<int>(at / 5) % 2 == 0 ? 1.0 : 0.0; };
  EXPECT_FALSE(place_noise(tries(200, 1, 1, chance)).differs());
  EXPECT_TRUE(place_noise(tries(200, 5, 1, chance)).differs());
}

TEST(PlaceNoise, NothingIsSaidOfFewOrEqualPlaces) {
  const auto step = [](double at) { return at < 25 ? 1.0 : 0.0; };
  EXPECT_EQ(place_noise(tries(11, 1, 1, step)).trend_p, 1);
  EXPECT_LT(place_noise(tries(12, 1, 1, step)).trend_p, 0.01);
  const PlaceNoise equal = place_noise(tries(50, 1, 1, [](double) { return 1.0; }));
  EXPECT_FALSE(equal.is_trend() || equal.differs());
}

}  // namespace
}  // namespace kvtide::loss

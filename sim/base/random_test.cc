#include "base/random.h"

#include <gtest/gtest.h>

namespace kvtide {
namespace {

// Reference outputs of SplitMix64 seeded with 0: the first value of the public C program is 0xE220A8397B1DCDAF.
TEST(RandomStream, MixIsSplitMix64) {
  EXPECT_EQ(mix64(0), 0xE220A8397B1DCDAFULL);
}

TEST(RandomStream, NamedStreamsAreIndependentOfEachOther) {
  RandomStream a(1, "arrivals");
  RandomStream b(1, "lengths");
  RandomStream again(1, "arrivals");
  const std::uint64_t first = a.next();
  (void)b.next();
  EXPECT_EQ(first, again.next());
  EXPECT_NE(first, RandomStream(1, "lengths").next());
  EXPECT_NE(first, RandomStream(2, "arrivals").next());
}

// Mean and variance of N(0,1) over 20,000 draws: standard errors 0.0071 and 0.01; five of them allowed.
TEST(RandomStream, NormalHasZeroMeanAndUnitVariance) {
  RandomStream stream(7, "normal");
  double sum = 0;
  double squares = 0;
  constexpr int kDraws = 20000;
  for (int draw = 0; draw < kDraws; ++draw) {
    const double x = stream.normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0.0, 0.036);
  EXPECT_NEAR(squares / kDraws, 1.0, 0.05);
}

TEST(RandomStream, BelowStaysBelow) {
  RandomStream stream(3, "below");
  for (int draw = 0; draw < 1000; ++draw) EXPECT_LT(stream.below(7), 7u);
}

}  // namespace
}  // namespace kvtide

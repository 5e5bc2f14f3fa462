#include "loss/event_phase.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace kvtide::loss {
namespace {

// All at one phase: R = 1; Z_m^2 = 2 n m, so H is at m = 20: 2 * 4 * 20 - 76 = 84.
TEST(EventPhase, EventsAtOnePhase) {
  const EventPhase found = event_phase(std::vector<double>{4, 68, 132, 196}, 64);
  EXPECT_NEAR(found.length, 1, 1e-12);
  EXPECT_NEAR(found.phase, 4, 1e-9);
  EXPECT_NEAR(found.rayleigh_p, std::exp(-4), 1e-12);
  EXPECT_NEAR(found.h, 84, 1e-9);
}

// Four corners of the circle: R = 0, the fourth harmonic is in phase: Z_4^2 = 2 n = 8, 8 - 12 < 0, but m = 20 holds five of those: 40 - 76.
TEST(EventPhase, OppositeEventsCancel) {
  const EventPhase found = event_phase(std::vector<double>{0, 16, 32, 48}, 64);
  EXPECT_NEAR(found.length, 0, 1e-12);
  EXPECT_NEAR(found.rayleigh_p, 1, 1e-9);
  EXPECT_NEAR(found.h_p, 1, 1e-9);
  EXPECT_EQ(event_phase({}, 64).rayleigh_p, 1);
}

// Two narrow clusters half a period apart: Rayleigh sees nothing, the H-test does.
TEST(EventPhase, TwoClustersAreSeenByTheHTestOnly) {
  std::vector<double> at;
  for (int cycle = 0; cycle < 10; ++cycle) {
    at.push_back(64 * cycle + 3);
    at.push_back(64 * cycle + 35);
  }
  const EventPhase found = event_phase(at, 64);
  EXPECT_GT(found.rayleigh_p, 0.9);
  EXPECT_LT(found.h_p, 1e-6);
}

// 1,000 runs at 1 %: 10 expected, standard deviation 3.1.
TEST(EventPhase, RandomEventsRarelyCrowd) {
  int rayleigh = 0;
  int h = 0;
  RandomStream random(1, "test.events");
  for (int run = 0; run < 1000; ++run) {
    std::vector<double> at;
    for (int event = 0; event < 30; ++event) at.push_back(1000 * random.uniform());
    const EventPhase found = event_phase(at, 50);
    rayleigh += found.rayleigh_p <= 0.01 ? 1 : 0;
    h += found.h_p <= 0.01 ? 1 : 0;
  }
  EXPECT_LE(rayleigh, 22);
  EXPECT_LE(h, 22);
}

}  // namespace
}  // namespace kvtide::loss

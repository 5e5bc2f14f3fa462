#include "loss/short_scan.h"

#include <gtest/gtest.h>

#include <vector>

#include "loss/testing/autoregressive_noise.h"

namespace kvtide::loss {
namespace {

TEST(ShortScan, ThreeCyclesOfACombAgree) {
  std::vector<double> comb = autoregressive(3 * 64 + 10, 0, 1);
  for (std::size_t j = 0; j < comb.size(); ++j) comb[j] = 0.1 * comb[j] + (j % 64 < 7 ? 1 : 0);
  const ShortScan scan = search_short_scan(comb, 34, 101, 1);
  EXPECT_EQ(scan.period, 64);
  EXPECT_GT(scan.agreement, 0.7);  // signal variance 0.11 * 0.89 = 0.097 beside noise 0.01
  EXPECT_EQ(scan.p, 1.0 / 500);    // the resolution of 499 surrogates
}

// 60 runs at 1 %: 0.6 expected; more than 4 has probability 0.04 %.
TEST(ShortScan, NoiseAgreesNoBetterThanItsSurrogates) {
  for (const double rho : {0.0, 0.95}) {
    std::int64_t alarms = 0;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      alarms += search_short_scan(autoregressive(256, rho, seed), 43, 128, seed).p <= 0.01 ? 1 : 0;
    }
    EXPECT_LE(alarms, 4) << rho;
  }
}

TEST(ShortScan, TooShortOrConstantProfilesHaveNoPeriod) {
  EXPECT_EQ(search_short_scan(std::vector<double>(7, 1.0), 2, 3, 1).period, 0);
  EXPECT_EQ(search_short_scan(std::vector<double>(64, 1.0), 11, 32, 1).period, 0);
  EXPECT_EQ(search_short_scan(std::vector<double>(64, 1.0), 40, 32, 1).period, 0);
}

}  // namespace
}  // namespace kvtide::loss

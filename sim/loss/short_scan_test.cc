#include "loss/short_scan.h"

#include <gtest/gtest.h>

#include <cmath>
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

// 5 at two places 907 apart in noise of 0.1: 2 * 25 / (50 + 2 * 1,093 * 0.01 of the pairs' noise) = 0.70. Without that pair noise is left, whose
// agreement over 1,092 pairs has deviation 1 / sqrt(1,092) = 0.03. A comb of 64 with four dips of 7 keeps 17 of 21 pairs.
TEST(AgreementWithoutBestPairs, IsWhatASingleWordDoesNotCarry) {
  std::vector<double> word = autoregressive(2000, 0, 1);
  for (double& value : word) value *= 0.1;
  word[304] += 5;
  word[1211] += 5;
  EXPECT_NEAR(agreement_without_best_pairs(word, 907, 0), 0.70, 0.05);
  EXPECT_LT(std::abs(agreement_without_best_pairs(word, 907, 1)), 0.12);
  std::vector<double> comb(3 * 64 + 10);
  for (std::size_t j = 0; j < comb.size(); ++j) comb[j] = j % 64 < 7 ? 1 : 0;
  EXPECT_GT(agreement_without_best_pairs(comb, 64, 4), 0.95);
  EXPECT_EQ(agreement_without_best_pairs(comb, 64, comb.size()), 0);
}

TEST(ShortScan, TooShortOrConstantProfilesHaveNoPeriod) {
  EXPECT_EQ(search_short_scan(std::vector<double>(7, 1.0), 2, 3, 1).period, 0);
  EXPECT_EQ(search_short_scan(std::vector<double>(64, 1.0), 11, 32, 1).period, 0);
  EXPECT_EQ(search_short_scan(std::vector<double>(64, 1.0), 40, 32, 1).period, 0);
}

}  // namespace
}  // namespace kvtide::loss

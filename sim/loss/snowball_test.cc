#include "loss/snowball.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace kvtide::loss {
namespace {

TEST(Snowball, StepsMultiplyAndLostTokensAreGuessed) {
  const std::vector<double> full{1, 1, 1, 1};
  const Snowball snowball = estimate_snowball(full, std::vector<double>{1, 1, 0, 0}, 10);
  EXPECT_NEAR(snowball.token_probability[2], 0.1, 1e-12);
  EXPECT_NEAR(snowball.survival[3], 0.01, 1e-12);
  EXPECT_NEAR(snowball.expected_right_tokens, 2.11, 1e-12);
  EXPECT_NEAR(snowball.log_probability, 2 * std::log(0.1), 1e-12);
  EXPECT_TRUE(snowball.is_trusted);
}

TEST(Snowball, NothingLostKeepsTheFullCachesProbability) {
  const std::vector<double> full{0.8, 0.5};
  const Snowball snowball = estimate_snowball(full, std::vector<double>{1, 1}, 10);
  EXPECT_NEAR(snowball.survival[1], 0.4, 1e-12);
}

TEST(Snowball, HalfKeptSourcesAreNotTrusted) {
  const std::vector<double> full{1};
  EXPECT_TRUE(estimate_snowball(full, std::vector<double>{0.2}, 10).is_trusted);
  EXPECT_FALSE(estimate_snowball(full, std::vector<double>{0.21}, 10).is_trusted);
  EXPECT_FALSE(estimate_snowball(full, std::vector<double>{0.79}, 10).is_trusted);
  EXPECT_TRUE(estimate_snowball(full, std::vector<double>{0.8}, 10).is_trusted);
}

// 0.5 then 0.8: survival 0.5, 0.4, expected 0.9 right tokens, log-probability ln 0.4; a share of a half spoils the trust.
TEST(Snowball, KnownProbabilitiesMultiplyAndSharesOnlyDecideTheTrust) {
  const Snowball path = follow_path(std::vector<double>{0.5, 0.8}, std::vector<double>{0, 1});
  EXPECT_NEAR(path.survival[1], 0.4, 1e-12);
  EXPECT_NEAR(path.expected_right_tokens, 0.9, 1e-12);
  EXPECT_NEAR(path.log_probability, std::log(0.4), 1e-12);
  EXPECT_TRUE(path.is_trusted);
  EXPECT_FALSE(follow_path(std::vector<double>{0.5, 0.8}, std::vector<double>{0, 0.5}).is_trusted);
}

}  // namespace
}  // namespace kvtide::loss

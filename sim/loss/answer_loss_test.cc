#include "loss/answer_loss.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvtide::loss {
namespace {

TEST(AnswerLoss, NothingLostCostsNothing) {
  const AnswerLoss result = answer_loss({3.0, 0.5}, {0.0, 0.0});
  EXPECT_DOUBLE_EQ(result.loss, 0.0);
  EXPECT_DOUBLE_EQ(result.weakest_margin, 0.5);
}

// A margin of -ln 9 is a probability of 1 / (1 + 9): log-probability -ln 10. From m = 3 the drop is
// ln 10 - ln(1 + e^-3) = 2.302585 - 0.048587 = 2.253998.
TEST(AnswerLoss, EverythingLostLeavesAGuessAmongTen) {
  const AnswerLoss result = answer_loss({3.0}, {1.0});
  EXPECT_NEAR(result.loss, 2.253998, 1e-6);
  EXPECT_NEAR(result.weakest_margin, -std::log(9.0), 1e-12);
}

// m = 3, half lost: m' = (3 - 2.197225) / 2 = 0.401388; ln(1 + e^-0.401388) = 0.512459; minus 0.048587 = 0.463871.
TEST(AnswerLoss, MarginFallsInProportion) {
  const AnswerLoss result = answer_loss({3.0}, {0.5});
  EXPECT_NEAR(result.weakest_margin, 0.401388, 1e-6);
  EXPECT_NEAR(result.loss, 0.463871, 1e-6);
}

TEST(AnswerLoss, TokensAddUpAndTheWeakestDecidesTheMargin) {
  const AnswerLoss result = answer_loss({3.0, 6.0}, {1.0, 0.0});
  EXPECT_NEAR(result.loss, 2.253998, 1e-6);
  EXPECT_NEAR(result.weakest_margin, -2.197225, 1e-6);
}

// Two choices: the guess is 0.
TEST(AnswerLoss, FewerChoicesLeaveABetterGuess) {
  EXPECT_NEAR(answer_loss({3.0}, {1.0}, 2).weakest_margin, 0.0, 1e-12);
}

}  // namespace
}  // namespace kvtide::loss

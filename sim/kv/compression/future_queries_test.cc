#include "kv/compression/future_queries.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvtide::kv {
namespace {

// The header's example: (1 + cos 1) / 2 = 0.770151 and sin 1 / 2 = 0.420735.
TEST(MeanRotation, OfTwoPositionsIsHalfWay) {
  const MeanRotation rotation = mean_rotation({.theta = 100}, 2, 0, 2);
  EXPECT_NEAR(rotation.cosine[0], 0.770151, 1e-6);
  EXPECT_NEAR(rotation.sine[0], 0.420735, 1e-6);
  const Eigen::VectorXf turned = rotation.of_vector(Eigen::Vector2f(1, 0));
  EXPECT_NEAR(turned[0], 0.770151, 1e-6);
  EXPECT_NEAR(turned[1], 0.420735, 1e-6);
}

// The second pair of four channels turns by 100^(-2/4) = 0.1: angles 0.5, 0.6, 0.7 at positions 5, 6, 7.
TEST(MeanRotation, SlowPairsTurnByTheirOwnAngle) {
  const MeanRotation rotation = mean_rotation({.theta = 100}, 4, 5, 3);
  EXPECT_NEAR(rotation.cosine[0], (std::cos(5.0) + std::cos(6.0) + std::cos(7.0)) / 3, 1e-12);
  EXPECT_NEAR(rotation.cosine[1], (std::cos(0.5) + std::cos(0.6) + std::cos(0.7)) / 3, 1e-12);
  EXPECT_NEAR(rotation.sine[1], (std::sin(0.5) + std::sin(0.6) + std::sin(0.7)) / 3, 1e-12);
}

// R R' shrinks both channels of the pair by 0.770151^2 + 0.420735^2 = 0.770151 and mixes none.
TEST(MeanRotation, ShrinksAnEvenSpread) {
  const Eigen::MatrixXd spread = mean_rotation({.theta = 100}, 2, 0, 2).of_covariance(Eigen::MatrixXd::Identity(2, 2));
  EXPECT_NEAR(spread(0, 0), 0.770151, 1e-6);
  EXPECT_NEAR(spread(1, 1), 0.770151, 1e-6);
  EXPECT_NEAR(spread(0, 1), 0, 1e-12);
}

// A spread along the first channel (variance 4) lies along (cos, sin) afterwards: 4 c c, 4 c s, 4 s s.
TEST(MeanRotation, TurnsTheAxesOfASpread) {
  Eigen::MatrixXd spread = Eigen::MatrixXd::Zero(2, 2);
  spread(0, 0) = 4;
  const Eigen::MatrixXd turned = mean_rotation({.theta = 100}, 2, 0, 2).of_covariance(spread);
  EXPECT_NEAR(turned(0, 0), 4 * 0.770151 * 0.770151, 1e-5);
  EXPECT_NEAR(turned(0, 1), 4 * 0.770151 * 0.420735, 1e-5);
  EXPECT_NEAR(turned(1, 1), 4 * 0.420735 * 0.420735, 1e-5);
}

TEST(MeanRotation, NothingTurnsWithoutPositionsOrRope) {
  for (const MeanRotation& rotation : {mean_rotation({.theta = 0}, 4, 3, 5), mean_rotation({.theta = 100}, 4, 3, 0)}) {
    EXPECT_EQ(rotation.cosine, Eigen::VectorXd::Ones(2));
    EXPECT_EQ(rotation.sine, Eigen::VectorXd::Zero(2));
  }
}

}  // namespace
}  // namespace kvtide::kv

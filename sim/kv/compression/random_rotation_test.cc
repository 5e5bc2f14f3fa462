#include "kv/compression/random_rotation.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvtide::kv {
namespace {

// Column of a Hadamard matrix: every channel of a rotated unit vector has magnitude 1 / sqrt(d).
TEST(RandomRotation, SpreadsOneChannelEvenly) {
  const RandomRotation rotation(64);
  std::vector<float> row(64, 0.0F);
  row[17] = 1;
  rotation.rotate(row);
  for (const float x : row) EXPECT_FLOAT_EQ(std::abs(x), 0.125F);
}

TEST(RandomRotation, TurnsBack) {
  const RandomRotation rotation(8);
  const std::vector<float> before{1, -2, 3, 0.5F, 0, 7, -1, 2};
  std::vector<float> row = before;
  rotation.rotate(row);
  rotation.rotate_back(row);
  for (std::size_t channel = 0; channel < row.size(); ++channel) EXPECT_NEAR(row[channel], before[channel], 1e-5F);
}

}  // namespace
}  // namespace kvtide::kv

#include "kv/compression/random_rotation.h"

#include <gtest/gtest.h>

#include <bit>
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

// Half a register, one, and four of them.
TEST(RandomRotation, TurnsBack) {
  for (const std::size_t size : {8, 16, 64}) {
    const RandomRotation rotation(size);
    std::vector<float> before{1, -2, 3, 0.5F, 0, 7, -1, 2};
    before.resize(size, 0.25F);
    std::vector<float> row = before;
    rotation.rotate(row);
    rotation.rotate_back(row);
    for (std::size_t channel = 0; channel < size; ++channel) EXPECT_NEAR(row[channel], before[channel], 1e-5F) << size;
  }
}

// Element (r, c) of a Walsh-Hadamard matrix is -1 to the number of bits that r and c share: turned by the same signs twice,
// channel c of a row of ones at r only.
TEST(RandomRotation, IsAWalshHadamardTransformOfSignedChannels) {
  const std::size_t size = 64;
  const RandomRotation rotation(size);
  for (const std::size_t r : {0, 5, 37}) {
    std::vector<float> unit(size, 0.0F);
    unit[r] = 1;
    rotation.rotate(unit);
    std::vector<float> first(size, 0.0F);
    first[0] = 1;
    rotation.rotate(first);  // the sign of channel 0 alone
    const float sign = unit[0] / first[0];
    for (std::size_t c = 0; c < size; ++c) {
      EXPECT_EQ(unit[c], sign * first[c] * (std::popcount(r & c) % 2 == 0 ? 1.0F : -1.0F)) << r << " " << c;
    }
  }
}

}  // namespace
}  // namespace kvtide::kv

#include "loss/attention_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"

namespace kvtide::loss {
namespace {

std::vector<double> drawn(std::int64_t count, const char* name) {
  RandomStream random(1, name);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = random.normal();
  return values;
}

// Rows and keys beside whole tiles of 16 and 8, channels of any number, against sums written out.
TEST(KeyProducts, AreTheDotProductsOfEveryRowAndKey) {
  for (const std::int64_t num_rows : {1, 3, 8, 21}) {
    for (const std::int64_t num_keys : {1, 15, 16, 17, 40}) {
      for (const std::int64_t head_dim : {1, 4, 65}) {
        const auto q = drawn(num_rows * head_dim, "q");
        const auto wide = drawn(num_keys * head_dim, "k");
        const std::vector<float> k(wide.begin(), wide.end());
        std::vector<double> products(static_cast<std::size_t>(num_rows * num_keys), -1);
        key_products(q.data(), num_rows, k.data(), num_keys, head_dim, products.data());
        for (std::int64_t row = 0; row < num_rows; ++row) {
          for (std::int64_t key = 0; key < num_keys; ++key) {
            double sum = 0;
            for (std::int64_t channel = 0; channel < head_dim; ++channel) {
              sum += q[static_cast<std::size_t>(row * head_dim + channel)] *
                     static_cast<double>(k[static_cast<std::size_t>(key * head_dim + channel)]);
            }
            ASSERT_NEAR(products[static_cast<std::size_t>(row * num_keys + key)], sum, 1e-13)
                << row << " " << key << " of " << num_rows << " x " << num_keys << " x " << head_dim;
          }
        }
      }
    }
  }
}

// The C library's exp is good to 1 unit in the last place, 1.1e-16.
TEST(Softmax, SharesTheCLibrarysExponentials) {
  for (const std::int64_t count : {1, 15, 16, 33, 4000}) {
    auto values = drawn(count, "exp");
    for (double& value : values) value *= 200;
    const auto before = values;
    const double largest = *std::max_element(before.begin(), before.end());
    double sum = 0;
    for (const double x : before) sum += std::exp(x - largest);
    EXPECT_NEAR(softmax(values.data(), count), largest + std::log(sum), 1e-13 * std::abs(largest));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double expected = before[i] - largest < -707 ? 0.0 : std::exp(before[i] - largest) / sum;
      ASSERT_NEAR(values[i], expected, 1e-14 * expected) << before[i] - largest;
    }
  }
}

TEST(Softmax, WorkedExample) {
  std::vector<double> values{0, std::log(3.0)};
  EXPECT_DOUBLE_EQ(softmax(values.data(), 2), std::log(4.0));
  EXPECT_DOUBLE_EQ(values[0], 0.25);
  EXPECT_DOUBLE_EQ(values[1], 0.75);
}

TEST(Softmax, WhatIsNotANumberShowsInTheLogarithm) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    for (const std::size_t place : {0, 5, 39}) {
      std::vector<double> values(40, 1.0);
      values[place] = bad;
      EXPECT_FALSE(std::isfinite(softmax(values.data(), 40))) << bad << " at " << place;
    }
  }
}

// 19 rows and 35 positions, beside whole squares of 16: row 3 of position 4 lies fourth in the fifth line, and the sums start
// from what was there.
TEST(TurnWeights, LieByPositionAndAddUp) {
  const std::int64_t rows = 19;
  const std::int64_t positions = 35;
  const auto weights = drawn(rows * positions, "weights");
  std::vector<float> turned(static_cast<std::size_t>(positions * 48), -1.0F);
  std::vector<double> sums(static_cast<std::size_t>(positions), 1.0);
  turn_weights(weights.data(), rows, positions, turned.data(), 48, sums.data());
  for (std::int64_t position = 0; position < positions; ++position) {
    double sum = 1;
    for (std::int64_t row = 0; row < 48; ++row) {
      const float found = turned[static_cast<std::size_t>(position * 48 + row)];
      if (row >= rows) {
        EXPECT_EQ(found, row < 32 ? 0.0F : -1.0F) << "behind the rows, then behind their registers";
        continue;
      }
      const double weight = weights[static_cast<std::size_t>(row * positions + position)];
      EXPECT_EQ(found, static_cast<float>(weight));
      sum += weight;
    }
    EXPECT_NEAR(sums[static_cast<std::size_t>(position)], sum, 1e-13);
  }
}

TEST(Exponentials, StopAtTheHighest) {
  std::vector<double> values{-800, -1, 0, 2, 650, 651, std::numeric_limits<double>::infinity(), std::nan("")};
  exponentials(values.data(), 8, 650);
  EXPECT_EQ(values[0], 0);
  EXPECT_NEAR(values[1], std::exp(-1.0), 1e-16);
  EXPECT_EQ(values[2], 1);
  EXPECT_NEAR(values[3], std::exp(2.0), 2e-15);
  EXPECT_NEAR(values[4] / std::exp(650.0), 1, 1e-15);
  EXPECT_EQ(values[5], values[4]);
  EXPECT_EQ(values[6], values[4]);
  EXPECT_TRUE(std::isnan(values[7]));
}

// Two rows, one channel of eight. Row 0: delta = 1/2 (3 - 1) - 0 = 1, error 1, factor 1/4. Row 1: delta = 1/4 (3 - 2) -
// 1/8 (5 - 2) = -1/8, error 2, factor 1/2: C = 1/4 - 1/8, C+ = 1/4 + 1/128.
TEST(OutputShareOfAPosition, SumsOverRowsByHand) {
  std::vector<double> outputs(16, 0.0), errors(16, 0.0), value(8, 0.0), stored(8, 0.0);
  outputs[3] = 1;
  errors[3] = 1;
  outputs[8 + 3] = 2;
  errors[8 + 3] = 2;
  value[3] = 3;
  stored[3] = 5;
  const std::vector<double> factors{0.25, 0.5}, full{0.5, 0.25}, held{0, 0.125};
  const ChangeRows rows{2, padded_channels(4), outputs.data(), errors.data(), factors.data()};
  const OutputShare share = output_share(rows, full.data(), held.data(), value.data(), stored.data());
  EXPECT_DOUBLE_EQ(share.signed_loss, 0.125);
  EXPECT_DOUBLE_EQ(share.loss, 0.2578125);
}

TEST(OutputShareOfAPosition, ChannelsArePaddedToWholeRegisters) {
  EXPECT_EQ(padded_channels(1), 8);
  EXPECT_EQ(padded_channels(8), 8);
  EXPECT_EQ(padded_channels(9), 16);
}

}  // namespace
}  // namespace kvtide::loss

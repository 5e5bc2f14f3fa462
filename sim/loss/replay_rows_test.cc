#include "loss/replay_rows.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvtide::loss {
namespace {

constexpr std::size_t kRow = 16;  // one register

std::vector<float> rows_of(std::initializer_list<float> first) {
  std::vector<float> rows(first);
  rows.resize(kRow);
  return rows;
}

// Two channels beside a register of them: positions 2 and 0 are read back from entries 0 and 1.
TEST(TakeDifferences, FollowTheEntries) {
  constexpr std::int64_t kChannels = 18;
  std::vector<float> recorded(3 * kChannels, 1.0F);
  recorded[2 * kChannels + 17] = 5;
  std::vector<float> entries(2 * kChannels, 0.5F);
  entries[kChannels] = 3;
  const std::vector<std::int32_t> entry_of{1, -1, 0};
  const std::vector<std::int32_t> positions{2, 0};
  std::vector<float> differences(2 * kChannels);
  take_differences({recorded.data(), entries.data(), entry_of.data(), kChannels}, positions, differences.data());
  EXPECT_EQ(differences[0], 0.5F);
  EXPECT_EQ(differences[17], 4.5F);
  EXPECT_EQ(differences[kChannels], -2.0F);
  EXPECT_EQ(differences[kChannels + 17], 0.5F);
}

// Errors 3 - 1 = 2 and 1 - 0 = 1, factors 2 and 4: (2 * 2)^2 + (1 * 4)^2 = 32; 2^2 + 1 = 5; 3 * 2 + 1 * 1 = 7; 3^2 + 1 = 10.
TEST(TakeDifferences, AddUpOverChannels) {
  const std::vector<float> recorded{3, 1};
  const std::vector<float> entries{1, 0};
  const std::vector<std::int32_t> entry_of{0};
  const std::vector<std::int32_t> positions{0};
  const std::vector<float> factors{2, 4};
  std::vector<float> differences(2), distortions(kRow), squares(kRow), crosses(kRow), lengths(kRow);
  take_differences({recorded.data(), entries.data(), entry_of.data(), 2}, positions, factors.data(), differences.data(),
                   {distortions.data(), squares.data(), crosses.data(), lengths.data()});
  EXPECT_EQ(differences, (std::vector<float>{2, 1}));
  EXPECT_EQ(distortions[0], 32);
  EXPECT_EQ(squares[0], 5);
  EXPECT_EQ(crosses[0], 7);
  EXPECT_EQ(lengths[0], 10);
  squared_lengths(recorded.data(), 1, 2, squares.data());
  EXPECT_EQ(squares[0], 10);
}

// The header's example, with the logit's growth half in the products and half in the bias.
TEST(Grow, WorkedExample) {
  const std::vector<std::int32_t> positions{0};
  const std::vector<float> weights = rows_of({0.25F, 0.5F});
  const float half = std::log(2.0F) / 2;
  std::vector<float> growths = rows_of({half, half});
  std::vector<float> gone(kRow), held(kRow), sum = rows_of({1});
  const RowBlock block{positions, weights.data(), growths.data(), kRow, kRow};
  ASSERT_TRUE(grow(block, &half, sum.data()));
  EXPECT_NEAR(growths[1], 1, 1e-6);
  EXPECT_NEAR(sum[0], 0.75, 1e-6);
  split_weights(block, gone.data(), held.data());
  EXPECT_NEAR(gone[0], -0.25, 1e-6);
  EXPECT_NEAR(gone[1], -0.5, 1e-6);
  EXPECT_NEAR(held[0], 0.5, 1e-6);
  EXPECT_NEAR(held[1], 1, 1e-6);
  const float large = 50;
  EXPECT_FALSE(grow(block, &large, sum.data()));
}

// g = 1: d = -1/4, h = 1/2, shrink -1/2: -1/2, nothing lost. g = -1/2: d = 1/8, h = 1/8: 1/8 - 1/16 = 1/16. Untouched with
// shrink 1/2: 1/4 * 1/2.
TEST(Lost, OnlyWhatFalls) {
  const std::vector<std::int32_t> positions{1};
  std::vector<float> weights(2 * kRow);
  weights[kRow] = weights[kRow + 1] = 0.25F;
  std::vector<float> growths = rows_of({1, -0.5F});
  const RowBlock block{positions, weights.data(), growths.data(), kRow, kRow};
  std::vector<float> of_row(kRow), sums(kRow);
  lost_of_changed(block, rows_of({-0.5F, -0.5F}).data(), of_row.data(), sums.data());
  EXPECT_EQ(sums[0], 0.0625F);
  EXPECT_EQ(of_row[0], 0);
  EXPECT_EQ(of_row[1], 0.0625F);
  lost_of_untouched(block, rows_of({0.5F}).data(), of_row.data(), sums.data());
  EXPECT_EQ(sums[0], 0.125F);
  EXPECT_EQ(of_row[0], 0.125F);
}

// One channel, one row: v = 3, ohat = 1, e = 2, f = 1/4; a = 1/2. Dropped: delta = 1/2 (3 - 1) = 1, C = 1/4 * 1 * 2 = 1/2,
// C+ = 1/4. Read back as vhat = 2 with g = -1/2: d = h = 1/4, delta = 1/4 (3 - 1) + 1/4 (3 - 2) = 3/4, C = 3/8, C+ = 9/64.
TEST(Attribution, ByHand) {
  const std::vector<std::int32_t> positions{0};
  const std::vector<float> weights = rows_of({0.5F});
  std::vector<float> growths = rows_of({-0.5F});
  const RowBlock block{positions, weights.data(), growths.data(), kRow, kRow};
  const RowTerms terms{rows_of({0.25F * 1 * 2}), rows_of({0.25F}), rows_of({0.25F})};
  std::vector<float> of_value(2 * kRow), of_change(2 * kRow);  // with f e = 1/2 and, a register behind, f ohat = 1/4
  of_value[0] = 3.0F / 2;
  of_value[kRow] = 3.0F / 4;
  of_change[0] = 1.0F / 2;
  of_change[kRow] = 1.0F / 4;
  const VectorProducts products{of_value.data(), of_change.data(), 2 * kRow};
  const float value = 3;
  const float length = 9;
  const float square = 1;
  const float cross = 3;
  OutputLosses losses{std::vector<float>(kRow), std::vector<float>(kRow)};
  attribute_evicted(block, terms, products, {.values = &length}, losses);
  EXPECT_EQ(losses.signed_loss[0], 0.5F);
  EXPECT_EQ(losses.loss[0], 0.25F);
  attribute_changed(block, terms, products, {&length, &square, &cross}, losses);
  EXPECT_EQ(losses.signed_loss[0], 0.375F);
  EXPECT_EQ(losses.loss[0], 9.0F / 64);
  const float stored = 2;
  const std::vector<std::int32_t> entry_of{0};
  std::vector<float> vectors(2 * kRow);  // f e and, a register of rows behind, f ohat
  vectors[0] = 0.5F;
  vectors[kRow] = 0.25F;
  attribute_few_rows(block, terms, {&value, &stored, entry_of.data(), 1}, vectors.data(), 1, {&length, &square, &cross},
                     losses);
  EXPECT_EQ(losses.signed_loss[0], 0.375F);
  EXPECT_EQ(losses.loss[0], 9.0F / 64);
}

}  // namespace
}  // namespace kvtide::loss

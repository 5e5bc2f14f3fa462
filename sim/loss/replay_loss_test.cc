#include "loss/replay_loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "loss/hand_made_heads.h"

namespace kvtide::loss {
namespace {

/// The same cache without rows of its own: what was not dropped is as recorded.
kv::HeadCache recorded(kv::HeadCache cache) {
  cache.entries->is_recorded = true;
  cache.entries->k.resize(0, 0);
  cache.entries->v.resize(0, 0);
  cache.entries->bias.clear();
  return cache;
}

// Two keys of equal score, values 1 and 3, the second dropped: o = 2, ohat = 1, e = 1, E = 1/2, delta_2 = 1/2 (3 - 1) = 1,
// C(2) = 1 * 1 / 4 = E^2 and C+(2) = 1 / 4.
TEST(ReplayLoss, TwoKeysByHand) {
  kv::HeadTensors head = empty_head(2, 1, 1);
  head.v(0, 0) = 1;
  head.v(1, 0) = 3;
  const HeadReference reference = make_head_reference(head, {2, 2});
  const HeadLoss loss = *replay_loss(reference, recorded(evict(head, [](std::int64_t j) { return j == 0; })));
  EXPECT_NEAR(loss.output_error, 0.5, 1e-6);
  EXPECT_NEAR(loss.output_loss_signed[1], 0.25, 1e-6);
  EXPECT_NEAR(loss.output_loss[1], 0.25, 1e-6);
  EXPECT_EQ(loss.output_loss[0], 0);
  EXPECT_NEAR(loss.lost_mass[1], 0.5, 1e-12);
  EXPECT_EQ(loss.mass_loss, (std::vector<double>{0, 1}));
}

void expect_near(const std::vector<double>& found, const std::vector<double>& exact, const char* what) {
  double largest = 0;
  for (const double value : exact) largest = std::max(largest, std::abs(value));
  ASSERT_EQ(found.size(), exact.size());
  for (std::size_t j = 0; j < exact.size(); ++j) EXPECT_NEAR(found[j], exact[j], 2e-6 * largest) << what << " " << j;
}

void expect_agreement(const HeadLoss& fast, const HeadLoss& exact) {
  expect_near(fast.lost_mass, exact.lost_mass, "lost mass");
  expect_near(fast.mass_loss, exact.mass_loss, "mass loss");
  expect_near(fast.output_loss, exact.output_loss, "C+");
  expect_near(fast.output_loss_signed, exact.output_loss_signed, "C");
  expect_near(fast.lost_of_row, exact.lost_of_row, "lost of row");
  EXPECT_EQ(fast.bits_lost, exact.bits_lost);
  EXPECT_NEAR(fast.output_error, exact.output_error, 2e-6 * exact.output_error);
  EXPECT_NEAR(fast.output_error_squared, exact.output_error_squared, 2e-6 * exact.output_error_squared);
}

// Float32 products against the general way in float64, from one dropped position to all but one; with 700 positions
// beyond one run of sums, and rows that keep next to nothing.
TEST(ReplayLoss, DroppedRowsAgreeWithFloat64) {
  const kv::HeadTensors head = white_head(700, 9, 20, 5);
  const HeadReference reference = make_head_reference(head, {700, 708});
  for (const std::int64_t every : {1, 2, 3, 100, 699}) {
    const kv::HeadCache cache = evict(head, [every](std::int64_t j) { return every == 1 ? j != 350 : j % every == 1; });
    const HeadLoss exact = measure_head_in_float64(reference, cache);
    expect_agreement(*replay_loss(reference, recorded(cache)), exact);
    expect_agreement(*replay_loss(reference, cache), exact);
  }
}

/// Rows read back from 2 to 16 bits, alone and beside dropped and untouched ones; queries among the keys, of which the first
/// sees nothing touched.
void expect_agreement_of_changed(std::int64_t num_queries, std::int64_t head_dim) {
  kv::HeadTensors head = white_head(700, num_queries, head_dim, 6);
  for (std::size_t i = 0; i < head.q_positions.size(); ++i) head.q_positions[i] = 9 + 20 * static_cast<std::int64_t>(i);
  const HeadReference reference = make_head_reference(head, {0, 800});
  for (const std::int32_t levels : {4, 16, 256, 65536}) {
    for (const std::int64_t dropped : {0, 3, 99}) {  // of each hundred
      kv::HeadCache cache = round_rows(head, levels);
      kv::EntryTable& table = *cache.entries;
      for (std::int64_t j = 0; j < 700; ++j) {
        if (j < 20 || j % 100 == 50) {
          table.k.row(j) = head.k_post.row(j);
          table.v.row(j) = head.v.row(j);
        }
        if (j % 100 == 51) table.bias[static_cast<std::size_t>(j)] = 0.5F;
        if (j % 100 < dropped && j >= 20) table.entry_of[static_cast<std::size_t>(j)] = -1;
      }
      SCOPED_TRACE(testing::Message() << levels << " levels, dropped " << dropped);
      const HeadLoss loss = *replay_loss(reference, cache);
      expect_agreement(loss, measure_head_in_float64(reference, cache));
      const MassLoss mass = *replay_mass(reference, cache);
      EXPECT_EQ(mass.lost_mass, loss.lost_mass);
      EXPECT_EQ(mass.relative, loss.mass_loss);
      EXPECT_EQ(mass.of_row, loss.lost_of_row);
    }
  }
}

TEST(ReplayLoss, ChangedRowsAgreeWithFloat64) {
  expect_agreement_of_changed(37, 20);
}

// Attributed without products; 84 channels are four registers, one, and a part of one.
TEST(ReplayLoss, FewChangedRowsAgreeWithFloat64) {
  expect_agreement_of_changed(9, 84);
  expect_agreement_of_changed(21, 20);
}

// Two keys of 700 stay: one as recorded, one read back from 4 bits. What they keep is summed up on its own.
TEST(ReplayLoss, OneChangedKeyAmongTheLastTwoAgreesWithFloat64) {
  const kv::HeadTensors head = white_head(700, 9, 20, 5);
  const HeadReference reference = make_head_reference(head, {700, 708});
  kv::HeadCache cache = round_rows(head, 16);
  for (std::int64_t j = 0; j < 700; ++j) {
    if (j != 350 && j != 351) cache.entries->entry_of[static_cast<std::size_t>(j)] = -1;
  }
  cache.entries->k.row(351) = head.k_post.row(351);
  cache.entries->v.row(351) = head.v.row(351);
  const std::optional<HeadLoss> loss = replay_loss(reference, cache);
  ASSERT_TRUE(loss.has_value());
  expect_agreement(*loss, measure_head_in_float64(reference, cache));
}

// Two positions behind one entry; a key whose error multiplies a weight by e^50.
TEST(ReplayLoss, LeavesPoolsAndBrokenKeysToFloat64) {
  const kv::HeadTensors head = white_head(8, 1, 1);
  const HeadReference reference = make_head_reference(head, {0, 100});
  EXPECT_FALSE(replay_loss(reference, pool(head, 0, 4, 2, 0)).has_value());
  kv::HeadCache broken = identity_cache(head);
  broken.entries->k(3, 0) += 50 / head.q_post(0, 0);
  EXPECT_FALSE(replay_loss(reference, broken).has_value());
  EXPECT_NEAR(measure_head(reference, broken).mass_loss[2], 1, 1e-9);
}

TEST(ReplayLoss, NothingDroppedLosesNothing) {
  const kv::HeadTensors head = white_head(40, 3, 8);
  const HeadReference reference = make_head_reference(head, {40, 42});
  const HeadLoss loss = *replay_loss(reference, recorded(identity_cache(head)));
  EXPECT_EQ(loss.output_error, 0);
  EXPECT_EQ(*std::ranges::max_element(loss.mass_loss), 0);
}

// Everything dropped: no output is left, so e = o and E = 1.
TEST(ReplayLoss, EverythingDroppedLosesTheWholeOutput) {
  const kv::HeadTensors head = white_head(40, 3, 8);
  const HeadReference reference = make_head_reference(head, {40, 42});
  const HeadLoss loss = *replay_loss(reference, recorded(evict(head, [](std::int64_t) { return false; })));
  EXPECT_NEAR(loss.output_error, 1, 1e-9);
}

}  // namespace
}  // namespace kvtide::loss

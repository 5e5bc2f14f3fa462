#include "loss/answer_reading.h"

#include <gtest/gtest.h>

#include <cmath>

#include "loss/hand_made_heads.h"

namespace kvtide::loss {
namespace {

/// A head whose queries, `num_queries` of them, give `place` among positions 0..3 the weight `share` and the three others
/// equal parts of the rest; keys behind them weigh nothing. |v_j| = j + 1.
kv::HeadTensors reading_head(double share, std::int64_t num_queries, std::int64_t place) {
  const std::int64_t num_positions = 4 + num_queries;
  kv::HeadTensors head = empty_head(num_positions, 1, 2);
  head.attention_scale = 1;
  head.q_post.resize(num_queries, 2);
  head.q_positions.clear();
  for (std::int64_t i = 0; i < num_queries; ++i) {
    head.q_post.row(i) << 1, 0;
    head.q_positions.push_back(4 + i);
    head.k_post(4 + i, 0) = -1000;
  }
  head.k_post(place, 0) = static_cast<float>(std::log(3 * share / (1 - share)));
  for (std::int64_t j = 0; j < num_positions; ++j) head.v(j, 1) = static_cast<float>(j + 1);
  return head;
}

HeadReference reader(double share, std::int64_t num_queries = 1, std::int64_t place = 0) {
  return make_head_reference(reading_head(share, num_queries, place), {4, 100});
}

/// x where this is left of the reading.
double lost_when_kept(double kept) {
  return 1 - std::pow(kept, 1.25);
}

// The header's example: one query, position 0 with |v| = 1.
TEST(AnswerReading, StrongReaderDecides) {
  const AnswerPlaces places{{0}, {0, 1}, 4};
  AnswerReading strong_loses(places, 4);
  strong_loses.add_evicted(reader(0.64), {{0, 1}});
  strong_loses.add_evicted(reader(0.04), {});
  EXPECT_NEAR(strong_loses.lost_share()[0], lost_when_kept(0.0016 / 0.4112), 1e-6);
  AnswerReading weak_loses(places, 4);
  weak_loses.add_evicted(reader(0.64), {});
  weak_loses.add_evicted(reader(0.04), {{0, 1}});
  EXPECT_NEAR(weak_loses.lost_share()[0], lost_when_kept(0.4096 / 0.4112), 1e-6);
}

// Both read with a = 0.4, the second through a value of three times the length: (0.4 * 3)^2 = 1.44 against 0.16.
TEST(AnswerReading, ReaderCountsByWhatItCarries) {
  kv::HeadTensors long_value = reading_head(0.4, 1, 0);
  long_value.v(0, 1) = 3;
  AnswerReading reading({{0}, {0, 1}, 4}, 4);
  reading.add_evicted(reader(0.4), {});
  reading.add_evicted(make_head_reference(long_value, {4, 100}), {{0, 1}});
  EXPECT_NEAR(reading.lost_share()[0], lost_when_kept(0.16 / 1.60), 1e-6);
}

// The header's second example: the answer stands at 1, a head with a = 0.8 looks at position 0 in front of it and loses
// it, a head with a = 0.9 copies. The finder reads the answer too: (0.2 / 3 * 2)^2 = 0.01778 beside (0.9 * 2)^2 = 3.24.
TEST(AnswerReading, CopierOfALaterLayerNeedsTheFinder) {
  const AnswerPlaces places{{1}, {1, 2}, 4};
  AnswerReading in_series(places, 4);
  in_series.add_evicted(reader(0.8), {{0, 1}});
  in_series.end_layer();
  in_series.add_evicted(reader(0.9, 1, 1), {});
  const double rho = 1 / (0.9 + 0.1 * std::exp(1.5 * 0.64));
  EXPECT_NEAR(rho, 0.861, 5e-4);
  EXPECT_NEAR(in_series.lost_share()[0], lost_when_kept((0.0177778 + 3.24 * rho) / 3.2577778), 1e-6);
  AnswerReading of_one_layer(places, 4);
  of_one_layer.add_evicted(reader(0.8), {{0, 1}});
  of_one_layer.add_evicted(reader(0.9, 1, 1), {});
  EXPECT_DOUBLE_EQ(of_one_layer.lost_share()[0], 0.0);
  // Another finder as good: found falls from 1 - 0.36^2 to 0.64, by 0.2304 instead of 0.64.
  AnswerReading with_another(places, 4);
  with_another.add_evicted(reader(0.8), {{0, 1}});
  with_another.add_evicted(reader(0.8), {});
  with_another.end_layer();
  with_another.add_evicted(reader(0.9, 1, 1), {});
  const double helped = 1 / (0.9 + 0.1 * std::exp(1.5 * 0.2304));
  EXPECT_NEAR(with_another.lost_share()[0], lost_when_kept((0.0355556 + 3.24 * helped) / 3.2755556), 1e-6);
}

// Layer 0 carries (0.4 * 1)^2 = 0.16 from position 0 in two heads, of which one loses it; layer 1 carries 0.16 and keeps it.
TEST(AnswerReading, LayersAreToldApart) {
  AnswerReading reading({{0}, {0, 1}, 4}, 4);
  reading.add_evicted(reader(0.4), {{0, 1}});
  reading.add_evicted(reader(0.4), {});
  reading.end_layer();
  reading.add_evicted(reader(0.4), {});
  reading.end_layer();
  ASSERT_EQ(reading.lost_by_layer().size(), 2U);
  EXPECT_NEAR(reading.lost_by_layer()[0], 0.5, 1e-6);
  EXPECT_DOUBLE_EQ(reading.lost_by_layer()[1], 0.0);
  EXPECT_NEAR(reading.carried_by_layer()[0], 2.0 / 3, 1e-6);
  EXPECT_NEAR(reading.carried_by_layer()[1], 1.0 / 3, 1e-6);
}

TEST(AnswerReading, EvictingWhatIsNotTheFactIsNotLosingIt) {
  AnswerReading reading({{1}, {1, 2}, 4}, 4);
  reading.add_evicted(reader(0.4), {{0, 1}, {2, 4}});
  EXPECT_DOUBLE_EQ(reading.lost_share()[0], 0.0);
}

// Two queries: 4 asks, 5 answers; both give positions 0..3 the weights 0.4, 0.2, 0.2, 0.2. The fact is 0..1, the answer
// stands at 1. Without position 0 the answer's own reading is whole, the question lost 0.16 of 0.16 + 0.04. Without 0 and
// 1 everything is lost.
TEST(AnswerReading, QuestionThatCannotReadTheFactLosesTheAnswer) {
  const AnswerPlaces places{{1}, {0, 2}, 5};
  AnswerReading words(places, 4);
  words.add_evicted(reader(0.4, 2), {{0, 1}});
  EXPECT_NEAR(words.lost_share()[0], lost_when_kept(0.2), 1e-6);
  AnswerReading all(places, 4);
  all.add_evicted(reader(0.4, 2), {{0, 2}});
  EXPECT_NEAR(all.lost_share()[0], 1.0, 1e-12);
  // The question was run before anything was compressed.
  AnswerReading aware(places, 5);
  aware.add_evicted(reader(0.4, 2), {{0, 1}});
  EXPECT_DOUBLE_EQ(aware.lost_share()[0], 0.0);
}

// Two answer tokens at 0 and 1, queries 4 and 5. The first has lost its own source; its query, which sees the compressed
// cache, lost 0.16 of 0.2 of the fact and asks for the second.
TEST(AnswerReading, EarlierAnswerTokensAskForTheLaterOnes) {
  AnswerReading reading({{0, 1}, {0, 2}, 4}, 4);
  reading.add_evicted(reader(0.4, 2), {{0, 1}});
  EXPECT_NEAR(reading.lost_share()[0], 1.0, 1e-12);
  EXPECT_NEAR(reading.lost_share()[1], lost_when_kept(0.2), 1e-6);
}

TEST(AnswerReading, UntouchedCacheLosesNothing) {
  kv::HeadTensors head = white_head(6, 1, 4);
  AnswerReading reading({{2}, {2, 3}, 6}, 6);
  reading.add_cache(make_head_reference(head, {6, 6}), identity_cache(head));
  EXPECT_DOUBLE_EQ(reading.lost_share()[0], 0.0);
}

// Values halved by a codec: every output is half as long, |o - ohat|^2 / |o|^2 = 1/4. Eight times as long they are wrong
// by more than themselves, and the share stops at 1.
TEST(AnswerReading, CodecCountsByTheEnergyOfItsOutputErrorUpToAll) {
  kv::HeadTensors head = white_head(6, 1, 4);
  const HeadReference reference = make_head_reference(head, {6, 6});
  const AnswerPlaces places{{2}, {2, 3}, 6};
  kv::HeadCache cache = identity_cache(head);
  cache.entries->v *= 0.5F;
  AnswerReading half(places, 6);
  half.add_cache(reference, cache);
  EXPECT_NEAR(half.lost_share()[0], lost_when_kept(0.75), 1e-6);
  cache.entries->v *= 16.0F;
  AnswerReading all(places, 6);
  all.add_cache(reference, cache);
  EXPECT_DOUBLE_EQ(all.lost_share()[0], 1.0);
}

// Query 5 asks, query 6 copies, both with outputs half as long: each reading keeps 3/4, in series 9/16.
TEST(AnswerReading, CodecTakesFromTheQuestionToo) {
  kv::HeadTensors head = white_head(5, 2, 4);
  kv::HeadCache cache = identity_cache(head);
  cache.entries->v *= 0.5F;
  AnswerReading reading({{2}, {2, 3}, 6}, 5);
  reading.add_cache(make_head_reference(head, {5, 6}), cache);
  EXPECT_NEAR(reading.lost_share()[0], lost_when_kept(9.0 / 16), 1e-6);
  AnswerReading asked_before({{2}, {2, 3}, 6}, 6);
  asked_before.add_cache(make_head_reference(head, {5, 6}), cache);
  EXPECT_NEAR(asked_before.lost_share()[0], lost_when_kept(3.0 / 4), 1e-6);
}

}  // namespace
}  // namespace kvtide::loss

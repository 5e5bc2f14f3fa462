#include "loss/answer_reading.h"

#include <cmath>

#include "loss/hand_made_heads.h"

namespace kvtide::loss {
namespace {

/// A head whose queries, `num_queries` of them, give position 0 the weight `share` and positions 1..3 equal parts of the
/// rest; keys behind them weigh nothing.
kv::HeadTensors reading_head(double share, std::int64_t num_queries) {
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
  head.k_post(0, 0) = static_cast<float>(std::log(3 * share / (1 - share)));
  for (std::int64_t j = 0; j < num_positions; ++j) head.v(j, 1) = static_cast<float>(j + 1);
  return head;
}

HeadReference reader(double share, std::int64_t num_queries = 1) {
  return make_head_reference(reading_head(share, num_queries), {4, 100});
}

// The header's example. One query, and the fact is the token itself: own and question lose the same share s, so that
// x = 1 - (1 - s)^2.
TEST(AnswerReading, StrongReaderDecides) {
  const AnswerPlaces places{{0}, {0, 1}, 4};
  AnswerReading strong_loses(places, 4);
  strong_loses.add_evicted(reader(0.64), {{0, 1}});
  strong_loses.add_evicted(reader(0.04), {});
  const double strong = 0.4096 / 0.4112;
  EXPECT_NEAR(strong_loses.lost_share()[0], 1 - (1 - strong) * (1 - strong), 1e-6);
  AnswerReading weak_loses(places, 4);
  weak_loses.add_evicted(reader(0.64), {});
  weak_loses.add_evicted(reader(0.04), {{0, 1}});
  EXPECT_NEAR(weak_loses.lost_share()[0], 1 - strong * strong, 1e-6);
}

TEST(AnswerReading, EvictingWhatIsNotTheFactIsNotLosingIt) {
  AnswerReading reading({{1}, {1, 2}, 4}, 4);
  reading.add_evicted(reader(0.4), {{0, 1}, {2, 4}});
  EXPECT_DOUBLE_EQ(reading.lost_share()[0], 0.0);
}

// Two queries: 4 asks, 5 answers; both give positions 0..3 the weights 0.4, 0.2, 0.2, 0.2. The fact is 0..1, the answer
// stands at 1. Without position 0 the answer's own reading is whole, both queries lost 0.16 of 0.16 + 0.04: x = 0.8.
// Without 0 and 1 everything is lost.
TEST(AnswerReading, QuestionThatCannotReadTheFactLosesTheAnswer) {
  const AnswerPlaces places{{1}, {0, 2}, 5};
  AnswerReading words(places, 4);
  words.add_evicted(reader(0.4, 2), {{0, 1}});
  EXPECT_NEAR(words.lost_share()[0], 0.8, 1e-6);
  AnswerReading all(places, 4);
  all.add_evicted(reader(0.4, 2), {{0, 2}});
  EXPECT_NEAR(all.lost_share()[0], 1.0, 1e-12);
  // The question was run before anything was compressed: the answer's query alone lost its half, 0.16 of 0.4.
  AnswerReading aware(places, 5);
  aware.add_evicted(reader(0.4, 2), {{0, 1}});
  EXPECT_NEAR(aware.lost_share()[0], 0.4, 1e-6);
}

// Two answer tokens at 0 and 1, queries 4 and 5. The second's query comes after the first's, which sees the compressed
// cache: it lost 0.16 of 0.2 when position 0 is gone. The first has lost its own source.
TEST(AnswerReading, EarlierAnswerTokensAskForTheLaterOnes) {
  AnswerReading reading({{0, 1}, {0, 2}, 4}, 4);
  reading.add_evicted(reader(0.4, 2), {{0, 1}});
  EXPECT_NEAR(reading.lost_share()[0], 1.0, 1e-12);
  EXPECT_NEAR(reading.lost_share()[1], 0.8, 1e-6);
}

TEST(AnswerReading, UntouchedCacheLosesNothing) {
  kv::HeadTensors head = white_head(6, 1, 4);
  AnswerReading reading({{2}, {2, 3}, 6}, 6);
  reading.add_cache(make_head_reference(head, {6, 6}), identity_cache(head));
  EXPECT_DOUBLE_EQ(reading.lost_share()[0], 0.0);
}

// Values halved by a codec: every output is half as long, |o - ohat| / |o| = 1/2. Doubled three times over they are
// wrong by more than themselves, and the share stops at 1.
TEST(AnswerReading, CodecCountsByItsOutputErrorUpToAll) {
  kv::HeadTensors head = white_head(6, 1, 4);
  const HeadReference reference = make_head_reference(head, {6, 6});
  const AnswerPlaces places{{2}, {2, 3}, 6};
  kv::HeadCache cache = identity_cache(head);
  cache.entries->v *= 0.5F;
  AnswerReading half(places, 6);
  half.add_cache(reference, cache);
  EXPECT_NEAR(half.lost_share()[0], 0.5, 1e-6);
  cache.entries->v *= 16.0F;
  AnswerReading all(places, 6);
  all.add_cache(reference, cache);
  EXPECT_DOUBLE_EQ(all.lost_share()[0], 1.0);
}

}  // namespace
}  // namespace kvtide::loss

#include "loss/answer_reading.h"

#include <cmath>

#include "loss/hand_made_heads.h"

namespace kvtide::loss {
namespace {

/// A head whose one query gives position 0 the weight `share` and the other three keys equal parts of the rest.
HeadReference reader(double share) {
  kv::HeadTensors head = empty_head(4, 1, 2);
  head.attention_scale = 1;
  head.q_post(0, 0) = 1;
  head.k_post(0, 0) = static_cast<float>(std::log(3 * share / (1 - share)));
  for (std::int64_t j = 0; j < 4; ++j) head.v(j, 1) = static_cast<float>(j + 1);
  return make_head_reference(head, {0, 100});
}

// The header's example.
TEST(AnswerReading, StrongReaderDecides) {
  const HeadReference strong = reader(0.64);
  const HeadReference weak = reader(0.04);
  AnswerReading strong_loses({0});
  strong_loses.add_evicted(strong, {{0, 1}});
  strong_loses.add_evicted(weak, {});
  EXPECT_NEAR(strong_loses.lost_share()[0], 0.512 / 0.520, 1e-6);
  AnswerReading weak_loses({0});
  weak_loses.add_evicted(strong, {});
  weak_loses.add_evicted(weak, {{0, 1}});
  EXPECT_NEAR(weak_loses.lost_share()[0], 0.008 / 0.520, 1e-6);
}

TEST(AnswerReading, EvictingNeighboursIsNotLosingTheToken) {
  AnswerReading reading({1});
  reading.add_evicted(reader(0.4), {{0, 1}, {2, 4}});
  EXPECT_DOUBLE_EQ(reading.lost_share()[0], 0.0);
}

TEST(AnswerReading, UntouchedCacheLosesNothing) {
  kv::HeadTensors head = white_head(6, 1, 4);
  AnswerReading reading({2});
  reading.add_cache(make_head_reference(head, {0, 100}), identity_cache(head));
  EXPECT_DOUBLE_EQ(reading.lost_share()[0], 0.0);
}

// Values halved by a codec: every output is half as long, |o - ohat| / |o| = 1/2. Doubled three times over they are
// wrong by more than themselves, and the share stops at 1.
TEST(AnswerReading, CodecCountsByItsOutputErrorUpToAll) {
  kv::HeadTensors head = white_head(6, 1, 4);
  const HeadReference reference = make_head_reference(head, {0, 100});
  kv::HeadCache cache = identity_cache(head);
  cache.entries->v *= 0.5F;
  AnswerReading half({2});
  half.add_cache(reference, cache);
  EXPECT_NEAR(half.lost_share()[0], 0.5, 1e-6);
  cache.entries->v *= 16.0F;
  AnswerReading all({2});
  all.add_cache(reference, cache);
  EXPECT_DOUBLE_EQ(all.lost_share()[0], 1.0);
}

}  // namespace
}  // namespace kvtide::loss

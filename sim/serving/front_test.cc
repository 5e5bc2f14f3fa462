#include "serving/front.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace kvtide::serving {
namespace {

LengthDistribution fixed(double tokens) {
  return {.kind = LengthDistribution::Kind::fixed, .mean = tokens};
}

RequestTrace two_requests(std::vector<std::uint64_t> ids) {
  RequestTrace trace;
  trace.shared_block_tokens = 16;
  for (int i = 0; i < 2; ++i) {
    trace.requests.push_back(
        {.arrival = from_seconds(i), .input_tokens = 100, .output_tokens = 5, .shared_blocks = ids});
  }
  return trace;
}

TEST(Front, PaddingFillsUpToWholeBlocks) {
  const Front front{.texts = {{.name = "system", .tokens = fixed(130)}}, .is_padded = true, .multiple = 128};
  EXPECT_EQ(front.padded(130), 256);
  EXPECT_EQ(front.padded(128), 128);
  EXPECT_EQ(front.padded(0), 0);  // nothing in front: nothing to pad
  EXPECT_EQ(Front{.texts = front.texts}.padded(130), 130);
}

// 20 tokens before 100: 120. Blocks of 16: one of the front alone, then two that reach 12 and 28 tokens into the prompt, whose two ids
// cover 32; a fourth block would reach 44 tokens in.
TEST(Front, BlocksBehindAFrontAreOtherBlocks) {
  const Front front{.texts = {{.name = "system", .tokens = fixed(20)}}};
  const RequestTrace trace = two_requests({7, 8});
  TraceSource plain(trace);
  FrontSource source(plain, front, 16, 1);
  const Request first = source.take(), second = source.take();
  EXPECT_EQ(first.input_tokens, 120);
  ASSERT_EQ(first.shared_blocks.size(), 3U);
  EXPECT_EQ(first.shared_blocks, second.shared_blocks);  // the same front before the same prompt
  for (const std::uint64_t id : first.shared_blocks) EXPECT_TRUE(id != 7 && id != 8);
  // Another second id leaves the blocks that end before it.
  const RequestTrace other = two_requests({7, 9});
  TraceSource other_plain(other);
  FrontSource other_source(other_plain, front, 16, 1);
  const Request third = other_source.take();
  EXPECT_EQ(third.shared_blocks[0], first.shared_blocks[0]);
  EXPECT_EQ(third.shared_blocks[1], first.shared_blocks[1]);
  EXPECT_NE(third.shared_blocks[2], first.shared_blocks[2]);
}

// Two tokens inserted before the prompt move every block: of the prompt's own nothing is found again (C15).
TEST(Front, TwoTokensMoreShareNothing) {
  const RequestTrace trace = two_requests({7, 8});
  std::set<std::uint64_t> seen;
  for (const double tokens : {32.0, 34.0}) {
    const Front front{.texts = {{.name = "system", .tokens = fixed(tokens)}}};
    TraceSource plain(trace);
    FrontSource source(plain, front, 16, 1);
    const std::vector<std::uint64_t> ids = source.take().shared_blocks;
    EXPECT_EQ(ids.size(), 4U);  // 64 and 66 known tokens
    seen.insert(ids.begin(), ids.end());
  }
  EXPECT_EQ(seen.size(), 8U);
}

TEST(Front, SharesThatDoNotAddUpToOneLeaveTheRestBare) {
  const Front front{.texts = {{.name = "greeting", .tokens = fixed(10), .share = 0.25}}};
  RandomStream random(1, "test");
  int with = 0;
  for (int i = 0; i < 4000; ++i) with += draw_front(front, random).tokens > 0 ? 1 : 0;
  EXPECT_NEAR(with, 1000, 5 * std::sqrt(4000 * 0.25 * 0.75));  // five standard deviations
}

// Half of the traffic behind 130, half behind 2: modulo 128 they are one class.
TEST(Front, LengthsThatDifferByAPeriodAreOneClass) {
  const Front front{
      .texts = {{.name = "a", .tokens = fixed(130), .share = 0.5}, {.name = "b", .tokens = fixed(2), .share = 0.5}}};
  const std::vector<FrontShift> shifts = front_shifts(front, 128, 1000, 1);
  ASSERT_EQ(shifts.size(), 1U);
  EXPECT_EQ(shifts[0].tokens, 2);
  EXPECT_NEAR(shifts[0].share, 1, 1e-9);
  Front padded = front;
  padded.is_padded = true;
  padded.multiple = 128;
  ASSERT_EQ(front_shifts(padded, 128, 1000, 1).size(), 1U);
  EXPECT_EQ(front_shifts(padded, 128, 1000, 1)[0].tokens % 128, 0);
}

// Half behind 130 tokens, a quarter behind 100 to 300: 65 + 50. Padded to 128: 256 / 2 = 128, and a quarter of 200 + 63.5.
TEST(Front, TheMeanCountsSharesAndPadding) {
  Front front{.texts = {{.name = "fixed", .tokens = {.mean = 130}, .share = 0.5},
                        {.name = "drawn",
                         .tokens = {.kind = LengthDistribution::Kind::uniform, .low = 100, .high = 300},
                         .share = 0.25}},
              .multiple = 128};
  EXPECT_DOUBLE_EQ(front.mean_tokens(), 115);
  front.is_padded = true;
  EXPECT_DOUBLE_EQ(front.mean_tokens(), 128 + 263.5 / 4);
  EXPECT_DOUBLE_EQ(Front{}.mean_tokens(), 0);
}

}  // namespace
}  // namespace kvtide::serving

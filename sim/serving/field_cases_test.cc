// Reports from practice as numbers (capacity and reuse as a serving engine sees them).

#include <gtest/gtest.h>

#include "base/error.h"
#include "serving/memory_account.h"
#include "serving/scheduler.h"

namespace kvtide::serving {
namespace {

// Field case C7 (inference-sim/inference-sim#1545): 80 layers, 8 KV heads of 128, 8 ranks: 2 x 80 x 1 x 128 x 2 B = 40,960 B a token and
// rank; 40 GiB a rank hold 65,536 pages of 16 tokens, not eight times as many.
TEST(FieldCases, MemoryOfARankIsDividedByPagesOfARank) {
  const MemoryAccount account{
      .total_bytes = 40 * 1073741824.0, .utilization = 1, .kv_bytes_per_token = 40960, .block_size = 16};
  EXPECT_EQ(account.num_blocks(16), 65'536);
}

// Field case C2 (vllm-project/vllm#42058, huggingface/transformers#48566): 24,367 pages of 2 MiB and a part of one; at half the bytes twice
// as many or one more, by the part. A quarter of 814 pages' bytes: 3,256 to 3,259.
TEST(FieldCases, HalfTheBytesOfAPageAreTwiceThePagesOrOneMore) {
  const auto pages = [](double whole, double bytes_per_token) {
    const MemoryAccount account{
        .total_bytes = whole * 16 * 131072, .utilization = 1, .kv_bytes_per_token = bytes_per_token, .block_size = 16};
    return account.num_blocks(16);
  };
  EXPECT_EQ(pages(24'367.4, 131'072), 24'367);
  EXPECT_EQ(pages(24'367.4, 65'536), 48'734);
  EXPECT_EQ(pages(24'367.5, 65'536), 48'735);
  EXPECT_EQ(pages(814.6, 32'768), 3'258);
}

// Field case C9 (vllm-project/vllm#57336): tokens stored / tokens that the pages in use could store.
TEST(FieldCases, PagesInUseAreNotTokensInUse) {
  struct Case {
    std::int64_t tokens, pages;
    double share;
  };
  for (const Case& one : {Case{17, 2, 0.53125}, Case{400, 25, 1.0}, Case{401, 26, 0.96394}}) {
    Scheduler scheduler({.num_blocks = 101, .block_size = 16}, 0);
    scheduler.add(0, {.input_tokens = one.tokens, .output_tokens = 2, .shared_blocks = {}});
    (void)scheduler.begin_step();
    const std::int64_t used = 100 - scheduler.num_free_blocks();
    EXPECT_EQ(used, one.pages) << one.tokens;
    const auto context = static_cast<double>(scheduler.finish_step().front().context_tokens);
    EXPECT_NEAR(context / static_cast<double>(used * 16), one.share, 1e-5) << one.tokens;
  }
}

// Field case C14 (torch-spyre/sendnn-inference#320): the last output token is never computed on: prompt + outputs - 1.
TEST(FieldCases, TheFirstOutputTokenNeedsNoSlot) {
  Scheduler scheduler({.num_blocks = 33, .block_size = 64}, 0);
  EXPECT_NO_THROW(scheduler.add(0, {.input_tokens = 2048, .output_tokens = 1, .shared_blocks = {}}));
  EXPECT_THROW(scheduler.add(1, {.input_tokens = 2048, .output_tokens = 2, .shared_blocks = {}}), InputError);
}

std::int64_t reused(std::int64_t tokens, std::int64_t page, std::uint64_t first_id) {
  Scheduler scheduler({.num_blocks = 101, .block_size = page}, page);
  for (std::size_t turn = 0; turn < 2; ++turn) {
    Request request{.input_tokens = tokens, .output_tokens = 1, .shared_blocks = {}};
    for (std::int64_t block = 0; block < tokens / page; ++block) {
      request.shared_blocks.push_back((turn == 0 ? 0 : first_id) + static_cast<std::uint64_t>(block));
    }
    scheduler.add(turn, std::move(request));
    (void)scheduler.begin_step();
    (void)scheduler.finish_step();
  }
  return scheduler.counters().hit_blocks * page;
}

// Field case C15 (pegainfer-project/pegainfer#554, sgl-project/sglang#35635, vllm-project/vllm#52804): at least one token of a prompt is
// computed again: floor((n - 1) / P) x P. A prompt with tokens inserted in front shares nothing.
TEST(FieldCases, ReuseOfAPrefixIsRoundedToPages) {
  for (const auto& [tokens, by_16, by_64] :
       {std::tuple{69, 64, 64}, std::tuple{137, 128, 128}, std::tuple{273, 272, 256}}) {
    EXPECT_EQ(reused(tokens, 16, 0), by_16) << tokens;
    EXPECT_EQ(reused(tokens, 64, 0), by_64) << tokens;
    EXPECT_EQ(reused(tokens, 16, 1000), 0) << tokens;
  }
  EXPECT_EQ(reused(128, 16, 0), 112);  // a multiple of the page: the last page is computed again
}

// 4 + 8 tokens are 3 blocks of 4; 5 blocks hold the prompts of two requests, the whole of one.
TEST(EngineSwitches, ReservedOutputsArePreemptedNever) {
  for (const bool reserves : {false, true}) {
    Scheduler scheduler({.num_blocks = 6,
                         .block_size = 4,
                         .prefix_caching = false,
                         .reservation = reserves ? Reservation::whole_output : Reservation::none},
                        0);
    for (std::size_t i = 0; i < 3; ++i) scheduler.add(i, {.input_tokens = 4, .output_tokens = 9, .shared_blocks = {}});
    std::int64_t most = 0;
    for (int step = 0; step < 200 && !scheduler.is_idle(); ++step) {
      (void)scheduler.begin_step();
      most = std::max(most, scheduler.num_running());
      (void)scheduler.finish_step();
    }
    EXPECT_TRUE(scheduler.is_idle());
    EXPECT_EQ(scheduler.counters().preemptions > 0, !reserves);
    EXPECT_EQ(most > 1, !reserves);
  }
}

// Budget 8: the prompt of 12 takes two steps of its own, then both decode.
TEST(EngineSwitches, PrefillFirstMixesNoDecodes) {
  Scheduler scheduler({.num_blocks = 101, .block_size = 4, .max_num_batched_tokens = 8, .prefill_first = true}, 0);
  const auto step = [&] {
    const StepShape shape = scheduler.begin_step();
    (void)scheduler.finish_step();
    return std::pair{shape.num_tokens() - shape.num_decodes, shape.num_decodes};
  };
  scheduler.add(0, {.input_tokens = 4, .output_tokens = 9, .shared_blocks = {}});
  EXPECT_EQ(step(), (std::pair<std::int64_t, std::int64_t>{4, 0}));
  scheduler.add(1, {.input_tokens = 12, .output_tokens = 2, .shared_blocks = {}});
  EXPECT_EQ(step(), (std::pair<std::int64_t, std::int64_t>{8, 0}));
  EXPECT_EQ(step(), (std::pair<std::int64_t, std::int64_t>{4, 0}));
  EXPECT_EQ(step(), (std::pair<std::int64_t, std::int64_t>{0, 2}));
}

}  // namespace
}  // namespace kvtide::serving

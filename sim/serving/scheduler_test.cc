#include "serving/scheduler.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/error.h"

namespace kvtide::serving {
namespace {

class SchedulerTest : public testing::Test {
 protected:
  Scheduler& make(const EngineSettings& settings, std::int64_t shared_block_tokens = 0) {
    scheduler_ = std::make_unique<Scheduler>(settings, shared_block_tokens);
    return *scheduler_;
  }
  void add(std::int64_t input, std::int64_t output, std::vector<std::uint64_t> shared = {}) {
    requests_.push_back(std::make_unique<Request>(
        Request{.input_tokens = input, .output_tokens = output, .shared_blocks = std::move(shared)}));
    scheduler_->add(requests_.size() - 1, *requests_.back());
  }
  void add_urgent(std::int64_t input, std::int64_t output, std::int64_t priority) {
    requests_.push_back(std::make_unique<Request>(
        Request{.input_tokens = input, .output_tokens = output, .shared_blocks = {}, .priority = priority}));
    scheduler_->add(requests_.size() - 1, *requests_.back());
  }
  /// One step as text: prompt tokens of each chunk, then the number of decodes; and who finished.
  std::string step() {
    const StepShape shape = scheduler_->begin_step();
    std::string text;
    for (const PrefillChunk& chunk : shape.prefills) {
      text += std::to_string(chunk.tokens) + "@" + std::to_string(chunk.kv_before) + " ";
    }
    text += "+" + std::to_string(shape.num_decodes);
    for (const Advance& advance : scheduler_->finish_step()) {
      if (advance.is_finished) text += " end" + std::to_string(advance.request);
    }
    return text;
  }

  std::unique_ptr<Scheduler> scheduler_;
  std::vector<std::unique_ptr<Request>> requests_;
};

EngineSettings small(std::int64_t usable_blocks) {
  return {.num_blocks = usable_blocks + 1,
          .block_size = 4,
          .max_num_seqs = 8,
          .max_num_batched_tokens = 8,
          .prefix_caching = false};
}

TEST_F(SchedulerTest, APromptIsCutByTheBudgetAndDecodesGoFirst) {
  make(small(100));
  add(4, 9);
  EXPECT_EQ(step(), "4@0 +0");  // and its first token
  add(12, 2);
  EXPECT_EQ(step(), "7@0 +1");  // budget 8: one decode, 7 prompt tokens
  EXPECT_EQ(step(), "5@7 +1");  // the prompt is complete: its first token
  EXPECT_EQ(step(), "+2 end1");
  EXPECT_EQ(step(), "+1");
}

TEST_F(SchedulerTest, ALongPromptMayBeHeldToAThreshold) {
  EngineSettings settings = small(100);
  settings.long_prefill_threshold = 3;
  make(settings);
  add(6, 1);
  add(2, 1);
  EXPECT_EQ(step(), "3@0 2@0 +0 end1");
  EXPECT_EQ(step(), "3@3 +0 end0");
}

TEST_F(SchedulerTest, NoMoreSequencesRunThanAllowed) {
  EngineSettings settings = small(100);
  settings.max_num_seqs = 1;
  make(settings);
  add(2, 2);
  add(2, 1);
  EXPECT_EQ(step(), "2@0 +0");
  EXPECT_EQ(step(), "+1 end0");
  EXPECT_EQ(step(), "2@0 +0 end1");
}

TEST_F(SchedulerTest, TheHeadOfTheLineBlocksThoseBehindIt) {
  make(small(4));  // 16 tokens
  add(4, 9);       // 1 block now
  EXPECT_EQ(step(), "4@0 +0");
  add(16, 1);  // needs 4 blocks, 3 are free
  add(1, 1);   // would fit
  EXPECT_EQ(step(), "+1");
  EXPECT_EQ(scheduler_->num_waiting(), 2);
}

TEST_F(SchedulerTest, WhoLacksABlockPreemptsTheLastAndNobodyIsAdmittedInThatStep) {
  make(small(4));
  add(7, 9);
  add(7, 9);
  EXPECT_EQ(step(), "7@0 1@0 +0");
  EXPECT_EQ(step(), "6@1 +1");  // 8 and 7 tokens: two blocks each, all four taken
  add(1, 1);
  // Request 0 computes its 9th token: a third block. Request 1 is preempted and waits in front of request 2.
  EXPECT_EQ(step(), "+1");
  EXPECT_EQ(scheduler_->counters().preemptions, 1);
  EXPECT_EQ(scheduler_->counters().lost_tokens, 7);
  EXPECT_EQ(scheduler_->num_waiting(), 2);
  // One block is free; request 1 knows 7 + 1 tokens and needs two: request 2 must wait behind it.
  EXPECT_EQ(step(), "+1");
  EXPECT_EQ(scheduler_->num_waiting(), 2);
}

TEST_F(SchedulerTest, APreemptedRequestComputesItsGeneratedTokensAgain) {
  make(small(3));  // 12 tokens
  add(7, 3);
  add(3, 4);
  EXPECT_EQ(step(), "7@0 1@0 +0");
  EXPECT_EQ(step(), "2@1 +1");   // 8 + 3 tokens: 2 + 1 blocks, none free
  EXPECT_EQ(step(), "+1 end0");  // the 9th token needs a block: request 1 (3 computed, 1 generated) is preempted
  EXPECT_EQ(scheduler_->counters().preemptions, 1);
  EXPECT_EQ(step(), "4@0 +0");  // 3 prompt tokens and the generated one: now it has two
  EXPECT_EQ(step(), "+1");
  EXPECT_EQ(step(), "+1 end1");
  EXPECT_TRUE(scheduler_->is_idle());
  EXPECT_EQ(scheduler_->num_free_blocks(), 3);
}

TEST_F(SchedulerTest, AWatermarkHoldsAdmissionsBackButNotTheFirst) {
  EngineSettings settings = small(9);
  settings.watermark = 0.5;  // 5 of 10 blocks
  make(settings);
  add(16, 2);  // 4 blocks, nobody runs: admitted though only 5 are left
  add(4, 1);   // 1 block + 5 in reserve > 5
  EXPECT_EQ(step(), "8@0 +0");
  EXPECT_EQ(scheduler_->num_waiting(), 1);
}

TEST_F(SchedulerTest, OnlyFullBlocksAreReusedAndTheLastTokenIsComputedAgain) {
  EngineSettings settings = small(100);
  settings.prefix_caching = true;
  make(settings, 4);
  add(8, 1, {1, 2});
  EXPECT_EQ(step(), "8@0 +0 end0");
  add(8, 1, {1, 2});  // at most 7 tokens may be hits: one block
  EXPECT_EQ(step(), "4@4 +0 end1");
  add(9, 1, {1, 2});  // now both
  EXPECT_EQ(step(), "1@8 +0 end2");
  add(9, 1, {3, 2});  // chains differ from the first block on: no hit, whatever follows
  EXPECT_EQ(step(), "8@0 +0");
}

TEST_F(SchedulerTest, ABlockIsKnownAsSoonAsItIsScheduled) {
  EngineSettings settings = small(100);
  settings.prefix_caching = true;
  make(settings, 4);
  add(5, 1, {1});
  add(5, 1, {1});
  EXPECT_EQ(step(), "5@0 1@4 +0 end0 end1");  // the second hits what the first computes in this very step
}

TEST_F(SchedulerTest, APreemptedRequestHitsItsOwnBlocks) {
  EngineSettings settings = small(4);
  settings.prefix_caching = true;
  make(settings);
  add(7, 3);
  add(7, 2);
  EXPECT_EQ(step(), "7@0 1@0 +0");
  EXPECT_EQ(step(), "6@1 +1");
  // Request 0's 9th token preempts request 1, whose last block is freed first and taken; its first one is still known.
  EXPECT_EQ(step(), "+1 end0");
  EXPECT_EQ(scheduler_->counters().preemptions, 1);
  EXPECT_EQ(step(), "4@4 +0 end1");  // 7 + 1 known tokens, 4 of them in the cache
  EXPECT_EQ(scheduler_->counters().hit_blocks, 1);
}

// Seven blocks of 4. From step 2 on both decode; after step 9 request 0 has computed 12 tokens in 3 blocks, request 1 15 in 4, and none
// is free. Request 0's 13th token takes the block that request 1 frees first, its last, which is not full. The other three, one of them
// generated tokens alone, are hits: of 16 known tokens 4 are computed again.
TEST_F(SchedulerTest, APreemptedRequestHitsTheTokensItHadGenerated) {
  EngineSettings settings = small(7);
  settings.prefix_caching = true;
  make(settings);
  add(4, 10);
  add(8, 9);
  EXPECT_EQ(step(), "4@0 4@0 +0");
  EXPECT_EQ(step(), "4@4 +1");
  for (int decode = 3; decode <= 9; ++decode) EXPECT_EQ(step(), "+2") << decode;
  EXPECT_EQ(step(), "+1 end0");
  EXPECT_EQ(scheduler_->counters().lost_tokens, 15);
  EXPECT_EQ(step(), "4@12 +0 end1");
  EXPECT_EQ(scheduler_->counters().hit_blocks, 3);
}

// Ids of 4 tokens: the second one of request 0 names 2 prompt tokens, and 2 that are generated fill the block.
TEST_F(SchedulerTest, AnIdNamesNoBlockThatReachesBeyondThePrompt) {
  EngineSettings settings = small(100);
  settings.prefix_caching = true;
  make(settings, 4);
  add(6, 3, {1, 2});
  EXPECT_EQ(step(), "6@0 +0");
  EXPECT_EQ(step(), "+1");
  EXPECT_EQ(step(), "+1 end0");
  add(9, 1, {1, 2});
  EXPECT_EQ(step(), "5@4 +0 end1");
}

// Blocks of 4; as many layers with a window of 4 as without. 8 prompt tokens: 2 + 2 blocks. 4 more see the 3 before: 3 + 3. A decode at
// 13 tokens: 4, and one for the window and one because it begins inside another; at 17 tokens 5 + 2. Computed 8 at once, 20 tokens need
// 5 + ceil(11 / 4) + 1 = 9 blocks.
TEST_F(SchedulerTest, LayersWithAWindowGiveBackWhatLiesBehindIt) {
  EngineSettings settings = small(9);
  settings.growth = {.window = 4, .window_weight = 1};
  for (const bool is_run : {false, true}) {
    make(settings);
    requests_.clear();
    add(12, 9);
    EXPECT_EQ(step(), "8@0 +0");
    EXPECT_EQ(scheduler_->num_free_blocks(), 9 - 4);
    EXPECT_EQ(step(), "4@8 +0");
    EXPECT_EQ(scheduler_->num_free_blocks(), 9 - 6);
    EXPECT_EQ(step(), "+1");
    EXPECT_EQ(scheduler_->num_free_blocks(), 9 - 6);
    if (is_run) {
      (void)scheduler_->begin_step();
      EXPECT_EQ(scheduler_->repeatable_steps(), 7);
      (void)scheduler_->finish_step(4);
    } else {
      for (int context = 14; context <= 17; ++context) EXPECT_EQ(step(), "+1");
    }
    EXPECT_EQ(scheduler_->num_free_blocks(), 9 - 7);
    for (int context = 18; context <= 19; ++context) EXPECT_EQ(step(), "+1");
    EXPECT_EQ(step(), "+1 end0");
    EXPECT_EQ(scheduler_->num_free_blocks(), 9);
  }
  settings.num_blocks = 9;  // 8 usable
  make(settings);
  EXPECT_THROW(add(12, 9), InputError);
}

TEST_F(SchedulerTest, ARequestLargerThanTheCacheIsRefusedWithWhatIsMissing) {
  make(small(4));
  try {
    add(16, 2);  // 17 tokens are stored: the last one is never computed on
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("need 5 blocks of 4 tokens, the cache has 4: short by 1"),
              std::string::npos)
        << error.what();
  }
  EXPECT_NO_THROW(add(16, 1));
}

TEST_F(SchedulerTest, BlocksTakenAreBlocksReturned) {
  EngineSettings settings = small(40);
  settings.prefix_caching = true;
  make(settings, 4);
  for (std::int64_t i = 0; i < 50; ++i) add(1 + i % 17, 1 + i % 7, {static_cast<std::uint64_t>(i % 3)});
  int steps = 0;
  while (!scheduler_->is_idle() && ++steps < 10000) (void)step();
  EXPECT_TRUE(scheduler_->is_idle());
  EXPECT_EQ(scheduler_->num_free_blocks(), 40);
}

TEST(EngineSettings, RefusesWhatCannotBe) {
  EXPECT_THROW(Scheduler({.num_blocks = 1}, 0), InputError);
  EXPECT_THROW(Scheduler({.num_blocks = 10, .block_size = 0}, 0), InputError);
  EXPECT_THROW(Scheduler({.num_blocks = 10, .max_num_seqs = 0}, 0), InputError);
  EXPECT_THROW(Scheduler({.num_blocks = 10, .watermark = 1.0}, 0), InputError);
  EXPECT_THROW(Scheduler({.num_blocks = 10, .block_size = 24}, 16), InputError);  // ids of 16 tokens, blocks of 24
  EXPECT_NO_THROW(Scheduler({.num_blocks = 10, .block_size = 8}, 16));
}

TEST_F(SchedulerTest, TheUrgentGoBeforeThoseWhoCameFirst) {
  EngineSettings settings = small(100);
  settings.policy = SchedulingPolicy::priority;
  make(settings);
  add_urgent(4, 9, 5);
  EXPECT_EQ(step(), "4@0 +0");
  add_urgent(8, 1, 1);
  add_urgent(4, 1, 0);
  // A decode leaves 7 tokens: all 4 of the most urgent, 3 of the next.
  EXPECT_EQ(step(), "4@0 3@0 +1 end2");
}

// Three blocks of 4. Request 0 holds two (6 tokens), request 1 one and needs another in step 3: request 0 is less urgent and gives way
// although this step had scheduled it. By arrival request 1 would have given way itself.
TEST_F(SchedulerTest, TheLeastUrgentGivesWayEvenWhenScheduled) {
  EngineSettings settings = small(3);
  settings.policy = SchedulingPolicy::priority;
  make(settings);
  add_urgent(4, 9, 9);
  EXPECT_EQ(step(), "4@0 +0");
  add_urgent(4, 2, 0);
  EXPECT_EQ(step(), "4@0 +1");
  EXPECT_EQ(step(), "+1 end1");
  EXPECT_EQ(scheduler_->counters().preemptions, 1);
  EXPECT_EQ(step(), "6@0 +0");  // four prompt tokens and two generated ones, computed again

  make(small(3));
  add(4, 9);
  EXPECT_EQ(step(), "4@0 +0");
  add(4, 2);
  EXPECT_EQ(step(), "4@0 +1");
  EXPECT_EQ(step(), "+1");
}

// The README's example: request 1 gives way in step 3 with 3 tokens in one block. From host memory it comes back with them and decodes;
// without such memory its 3 prompt tokens and the generated one are computed again.
TEST_F(SchedulerTest, HostMemorySavesTheRecomputation) {
  for (const std::int64_t host_blocks : {0, 1}) {
    EngineSettings settings = small(3);
    settings.host_blocks = host_blocks;
    make(settings);
    requests_.clear();
    add(7, 3);
    add(3, 4);
    EXPECT_EQ(step(), "7@0 1@0 +0");
    EXPECT_EQ(step(), "2@1 +1");
    const StepShape third = scheduler_->begin_step();
    EXPECT_EQ(third.num_decodes, 1);
    EXPECT_EQ(third.swapped_tokens, host_blocks == 0 ? 0 : 3);
    EXPECT_TRUE(scheduler_->finish_step().front().is_finished);
    const StepShape fourth = scheduler_->begin_step();
    EXPECT_EQ(fourth.swapped_tokens, host_blocks == 0 ? 0 : 3);
    EXPECT_EQ(fourth.num_decodes, host_blocks == 0 ? 0 : 1);
    EXPECT_EQ(fourth.num_tokens(), host_blocks == 0 ? 4 : 1);
    EXPECT_EQ(scheduler_->counters().swaps, host_blocks);
    EXPECT_EQ(scheduler_->counters().lost_tokens, host_blocks == 0 ? 3 : 0);
  }
}

EngineSettings estimating(std::int64_t usable_blocks) {
  EngineSettings settings = small(usable_blocks);
  settings.max_num_batched_tokens = 64;
  settings.reservation = Reservation::estimated_output;
  settings.prefill_first = true;
  return settings;
}

// 0.7 x the 99 tokens that request 0 may still generate, 8 + 100 of its own and a block of 4: 181.3 tokens must be less than what is free:
// 46 blocks of 4 are 184, 45 are 180. Request 0 holds 2 blocks.
TEST_F(SchedulerTest, AnEstimateOfTheOutputsIsKeptFree) {
  for (const std::int64_t usable : {47, 48}) {
    make(estimating(usable));
    requests_.clear();
    add(8, 100);
    EXPECT_EQ(step(), "8@0 +0");
    add(8, 100);
    EXPECT_EQ(step(), usable == 48 ? "8@0 +0" : "+1");
  }
}

// The whole 100 tokens and a block of whoever is admitted beside it in one step: 112 + 104 = 216 tokens, 54 blocks are not more, 55 are.
// In the next step 0.7 x 99 + 112 = 181.3 fit in either case.
TEST_F(SchedulerTest, TheOutputOfWhoIsAdmittedInTheSameStepCountsWhole) {
  for (const std::int64_t usable : {56, 57}) {
    make(estimating(usable));
    requests_.clear();
    add(8, 100);
    add(8, 100);
    EXPECT_EQ(step(), usable == 57 ? "8@0 8@0 +0" : "8@0 +0");
    EXPECT_EQ(step(), usable == 57 ? "+2" : "8@0 +0");
  }
}

// 9 + 100 tokens of which two blocks are found: 1 + 100 + 4 and 69.3 are 174.3 tokens, 44 blocks are 176, 43 are 172. The blocks are
// request 0's (it holds 2), or they lie in the free list and are no room for anybody else.
TEST_F(SchedulerTest, WhatThePrefixCacheHasIsNotAskedForAgain) {
  for (const bool is_owned : {true, false}) {
    for (const std::int64_t usable : {45, 46}) {
      EngineSettings settings = estimating(usable + (is_owned ? 0 : 2));
      settings.prefix_caching = true;
      make(settings, 4);
      requests_.clear();
      add(8, is_owned ? 100 : 1, {1, 2});
      (void)step();
      if (!is_owned) {
        add(8, 100, {3, 4});
        (void)step();
      }
      add(9, 100, {1, 2});
      EXPECT_EQ(step(), usable == 46 ? "1@8 +0" : "+1") << is_owned;
    }
  }
}

// As above, behind the 600 decodes of another request: without the pause they would leave 9.7 of the 69.3 tokens.
TEST_F(SchedulerTest, AnIdleEngineForgetsItsEstimate) {
  EngineSettings settings = estimating(200);
  make(settings);
  add(8, 601);
  EXPECT_EQ(step(), "8@0 +0");
  while (!scheduler_->is_idle()) (void)step();
  add(8 + 4 * 153, 100);  // beside 153 more blocks it is the 47 of above
  for (int chunk = 0; chunk < 10; ++chunk) (void)step();
  add(8, 100);
  EXPECT_EQ(step(), "+1");
}

// Two caches of 8 tokens, each to hold a 9th at once: 3 blocks; the second asks for 9 + 99 + 4 beside 0.7 x 99: as above 46 blocks.
TEST_F(SchedulerTest, ATransferredCacheCountsInTheEstimate) {
  for (const std::int64_t usable : {48, 49}) {
    make(estimating(usable));
    for (const std::size_t index : {0, 1}) {
      scheduler_->add(index, {.input_tokens = 8, .output_tokens = 100, .shared_blocks = {}, .is_transferred = true});
    }
    EXPECT_EQ(step(), usable == 49 ? "+2" : "+1");
  }
}

// 1,003 blocks of 4, request 0 (8 + 4,000) alone: 4,004 tokens are free, 4,000 from its 9th token on. Request 1 asks for 8 + 1,196 and a
// block. Beside it 0.7 x 3,999 = 2,799.3 are kept free in step 2, 0.698997 x 3,998 = 2,794.6 in step 3, 2,789.9 in step 4: together
// 4,007.3, 4,002.6 and 3,997.9. One block more and step 2 has room. Who looks only once the batch has shrunk waits on.
TEST_F(SchedulerTest, WhoIsRefusedIsLookedAtInEachStepOnlyUnderPriorities) {
  for (const std::int64_t usable : {1003, 1004}) {
    for (const SchedulingPolicy policy : {SchedulingPolicy::priority, SchedulingPolicy::fcfs}) {
      EngineSettings settings = estimating(usable);
      settings.policy = policy;
      make(settings);
      requests_.clear();
      add(8, 4000);
      EXPECT_EQ(step(), "8@0 +0");
      add(8, 1196);
      if (usable == 1004) {
        EXPECT_EQ(step(), "8@0 +0");
        continue;
      }
      EXPECT_EQ(scheduler_->begin_step().num_decodes, 1);
      EXPECT_EQ(scheduler_->repeatable_steps(), policy == SchedulingPolicy::priority ? 2 : 3999);
      (void)scheduler_->finish_step(2);
      EXPECT_EQ(step(), policy == SchedulingPolicy::priority ? "8@0 +0" : "+1");
    }
  }
}

// As above, with a request (4 + 5) between them that ends in step 6: its estimate is 0.7 x 4 more in step 3, 4,010.1 tokens against 4,000.
// Then 0.695987 x 3,995 + 1,208 = 3,988.5 against the same 4,000.
TEST_F(SchedulerTest, WhoLeavesTheBatchOpensTheLine) {
  make(estimating(1003));
  add(8, 4000);
  EXPECT_EQ(step(), "8@0 +0");
  add(4, 5);
  EXPECT_EQ(step(), "4@0 +0");
  add(8, 1196);
  for (int decode = 3; decode <= 5; ++decode) EXPECT_EQ(step(), "+2") << decode;
  EXPECT_EQ(step(), "+2 end1");
  EXPECT_EQ(step(), "8@0 +0");
}

// After 600 decodes the estimate is at its least, 0.098: request 1 (10 + 1,200 tokens) is let in beside 1,300 tokens to come, and the 2,000
// blocks of one token run out. Who has generated least is retracted, to the end of the line, and the estimate rises to what has been
// generated: it waits until the other has finished.
TEST_F(SchedulerTest, TheOneThatGeneratedLeastIsRetracted) {
  EngineSettings settings = small(2000);
  settings.block_size = 1;
  settings.max_num_batched_tokens = 64;
  settings.reservation = Reservation::estimated_output;
  settings.prefill_first = true;
  make(settings);
  add(10, 1900);
  EXPECT_EQ(step(), "10@0 +0");
  for (int i = 0; i < 600; ++i) EXPECT_EQ(step(), "+1");
  add(10, 1200);
  EXPECT_EQ(step(), "10@0 +0");
  while (scheduler_->counters().preemptions == 0) (void)step();
  EXPECT_EQ(scheduler_->num_running(), 1);
  EXPECT_EQ(scheduler_->num_waiting(), 1);
  std::string text;
  while (text.find("end") == std::string::npos) text = step();
  EXPECT_EQ(text, "+1 end0");
  EXPECT_EQ(scheduler_->counters().preemptions, 1);
}

/// A quarter of every 8 tokens is kept.
EngineSettings evicting(std::int64_t usable_blocks) {
  EngineSettings settings = small(usable_blocks);
  settings.max_num_batched_tokens = 64;
  settings.growth = {.keep_ratio = 0.25, .interval = 8};
  return settings;
}

// 8 + 33 tokens store 40. 39 are 4 x 2 + 7 entries, and the 40th makes 16: 4 blocks; uncompressed they would be 10.
TEST_F(SchedulerTest, EvictionMakesRoomForALongAnswer) {
  make(evicting(3));
  EXPECT_THROW(add(8, 33), InputError);
  make(evicting(4));
  requests_.clear();
  add(8, 33);
  std::string text;
  for (int i = 0; i < 33; ++i) text = step();
  EXPECT_EQ(text, "+1 end0");
  EXPECT_EQ(scheduler_->counters().preemptions, 0);
}

// Two of them in 5 blocks. A prompt of 8 is 2 entries once it is complete; with the 15th token there are 2 + 7, a third block each: request
// 1 gives way with 14 computed and 7 generated. With the 16th request 0's second 8 become 2. Request 1 comes back in the 3
// blocks that it had:
// its prompt, and 9 - 2 tokens behind its 2 entries. Later its 40 tokens, twice what the cache holds, are computed in more pieces.
TEST_F(SchedulerTest, WhatAPreemptedRequestGeneratedIsComputedAgainBehindItsCompressedPrompt) {
  make(evicting(5));
  add(8, 33);
  add(8, 33);
  EXPECT_EQ(step(), "8@0 8@0 +0");
  for (int token = 9; token <= 14; ++token) EXPECT_EQ(step(), "+2") << token;
  EXPECT_EQ(step(), "+1");
  EXPECT_EQ(scheduler_->counters().lost_tokens, 14);
  EXPECT_EQ(step(), "+1");
  EXPECT_EQ(step(), "8@0 +1");
  EXPECT_EQ(step(), "7@2 +1");
  int steps = 0;
  while (!scheduler_->is_idle() && ++steps < 1000) {
    const StepShape shape = scheduler_->begin_step();
    for (const PrefillChunk& chunk : shape.prefills) EXPECT_LE(chunk.kv_before + chunk.tokens, 16);
    (void)scheduler_->finish_step();
  }
  EXPECT_TRUE(scheduler_->is_idle());
  EXPECT_EQ(scheduler_->num_free_blocks(), 5);
}

// 4 blocks each to the last token. A prompt of 40 takes 10 until it is complete, then 4.
TEST_F(SchedulerTest, AGuaranteeCountsWhatTheCompressedCacheHolds) {
  for (const std::int64_t usable : {7, 8}) {
    EngineSettings settings = evicting(usable);
    settings.reservation = Reservation::whole_output;
    make(settings);
    requests_.clear();
    add(8, 33);
    add(8, 33);
    EXPECT_EQ(step(), usable == 8 ? "8@0 8@0 +0" : "8@0 +0");
  }
  for (const std::int64_t usable : {13, 14}) {
    EngineSettings settings = evicting(usable);
    settings.reservation = Reservation::whole_output;
    make(settings);
    requests_.clear();
    add(40, 2);
    add(40, 2);
    EXPECT_EQ(step(), "40@0 +0");
    EXPECT_EQ(step(), usable == 14 ? "40@0 +1 end0" : "+1 end0");
  }
}

// Request 0 holds 3 entries with its next token and at most 16: 0.7 x 13 = 9.1. Request 1 asks for 16 and a block: 29.1 tokens, 8 blocks
// are 32, 7 are 28. Request 0 has one.
TEST_F(SchedulerTest, AnEstimateCountsWhatTheCompressedCacheHolds) {
  for (const std::int64_t usable : {8, 9}) {
    EngineSettings settings = estimating(usable);
    settings.growth = evicting(usable).growth;
    make(settings);
    requests_.clear();
    add(8, 33);
    EXPECT_EQ(step(), "8@0 +0");
    add(8, 33);
    EXPECT_EQ(step(), usable == 9 ? "8@0 +0" : "+1");
  }
}

// Its cache of 6 tokens comes with it: two blocks of 4 and no prompt tokens to compute, the second output token at once.
TEST_F(SchedulerTest, ATransferredRequestOnlyDecodes) {
  make(small(2));
  scheduler_->add(0, {.input_tokens = 6, .output_tokens = 2, .shared_blocks = {}, .is_transferred = true});
  EXPECT_EQ(step(), "+1 end0");
}

}  // namespace
}  // namespace kvtide::serving

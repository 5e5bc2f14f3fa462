// What no schedule may create or lose: blocks, tokens, time. Random requests through engines tight enough to preempt.

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>

#include "base/random.h"
#include "serving/block_pool.h"
#include "serving/scheduler.h"
#include "serving/serving_run.h"

namespace kvtide::serving {
namespace {

/// The rules of block_pool.h by the simplest means: a list searched from end to end.
struct PlainPool {
  std::deque<BlockId> free;
  std::map<BlockId, int> owners;
  std::map<BlockId, BlockKey> keys;
};

// Taken minus given back is what is owned, whatever the order; blocks and what they are known by are those of a plain list.
TEST(Conservation, RandomTrafficOfThePoolIsThatOfAPlainList) {
  constexpr std::int64_t kBlocks = 12;
  RandomStream random(5, "block_pool");
  BlockPool pool(kBlocks + 1);
  PlainPool plain;
  for (BlockId block = 1; block <= kBlocks; ++block) plain.free.push_back(block);
  std::vector<BlockId> held;  // once for every owner
  std::int64_t taken = 0;
  std::int64_t returned = 0;
  for (int step = 0; step < 20'000; ++step) {
    const std::uint64_t what = random.below(3);
    if (what == 0 && pool.num_free() > 0) {
      const BlockId block = pool.take();
      ASSERT_EQ(block, plain.free.front()) << step;
      plain.free.pop_front();
      plain.keys.erase(block);
      ASSERT_EQ(pool.key(block), 0u);
      if (random.below(2) == 0) {
        const BlockKey key = 1 + random.below(6);
        pool.set_key(block, key);
        plain.keys[block] = key;
      }
      plain.owners[block] = 1;
      held.push_back(block);
      ++taken;
    } else if (what == 1) {
      const BlockKey key = 1 + random.below(6);
      const BlockId block = pool.find(key);
      const bool is_known = std::ranges::any_of(plain.keys, [&](const auto& entry) { return entry.second == key; });
      ASSERT_EQ(block >= 0, is_known) << step;
      if (block < 0) continue;
      ASSERT_EQ(plain.keys.at(block), key) << step;
      taken += plain.owners[block] == 0 ? 1 : 0;
      std::erase(plain.free, block);
      ++plain.owners[block];
      pool.share(block);
      held.push_back(block);
    } else if (!held.empty()) {
      const auto index = static_cast<std::ptrdiff_t>(random.below(held.size()));
      const BlockId block = held[static_cast<std::size_t>(index)];
      held.erase(held.begin() + index);
      pool.release(block);
      if (--plain.owners[block] == 0) {
        plain.free.push_back(block);
        ++returned;
      }
    }
    const auto live = static_cast<std::int64_t>(std::set<BlockId>(held.begin(), held.end()).size());
    ASSERT_EQ(taken - returned, live) << step;
    ASSERT_EQ(pool.num_free(), kBlocks - live) << step;
  }
}

struct Case {
  std::int64_t usable_blocks;
  bool prefix_caching;
};

class ConservationOfTokens : public testing::TestWithParam<Case> {};

// A sequence of n input and m output tokens stores n + m - 1 entries: each is computed, or found in the prefix cache, once; and
// once more for every time that a preemption lost it. What is looked up is found or is missed. With a budget that lets every
// running request advance, the blocks in use are those of the advancing ones, counted once where they share.
TEST_P(ConservationOfTokens, EachIsComputedOrFoundOnceAndOnceMoreForEveryLoss) {
  constexpr std::int64_t kBlock = 4;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    RandomStream random(seed, "conservation");
    Scheduler scheduler({.num_blocks = GetParam().usable_blocks + 1,
                         .block_size = kBlock,
                         .max_num_seqs = 6,
                         .max_num_batched_tokens = 1000,
                         .prefix_caching = GetParam().prefix_caching,
                         .reserve_full_input = seed % 2 == 0},
                        kBlock);
    constexpr std::size_t kRequests = 40;
    std::int64_t needed = 0;
    for (std::size_t index = 0; index < kRequests; ++index) {
      Request request{.input_tokens = 1 + static_cast<std::int64_t>(random.below(24)),
                      .output_tokens = 1 + static_cast<std::int64_t>(random.below(20)),
                      .shared_blocks = {}};
      for (std::int64_t block = 0; (block + 1) * kBlock <= request.input_tokens && random.below(3) > 0; ++block) {
        request.shared_blocks.push_back(static_cast<std::uint64_t>(block));
      }
      needed += request.input_tokens + request.output_tokens - 1;
      scheduler.add(index, request);
    }
    std::int64_t computed = 0;
    std::int64_t found = 0;
    std::int64_t generated = 0;
    std::int64_t finished = 0;
    for (int step = 0; !scheduler.is_idle(); ++step) {
      ASSERT_LT(step, 5000);
      const std::int64_t tokens = scheduler.begin_step().num_tokens();
      for (const Admission& admission : scheduler.admitted()) {
        ASSERT_EQ(admission.cached_tokens % kBlock, 0);
        found += admission.cached_tokens;
      }
      const std::int64_t used = GetParam().usable_blocks - scheduler.num_free_blocks();
      std::int64_t blocks = 0;
      std::int64_t of_step = 0;
      for (const Advance& advance : scheduler.finish_step()) {
        of_step += advance.tokens;
        generated += advance.has_token ? 1 : 0;
        finished += advance.is_finished ? 1 : 0;
        blocks += (advance.context_tokens + kBlock - 1) / kBlock;
      }
      ASSERT_EQ(of_step, tokens) << "seed " << seed << " step " << step;
      computed += of_step;
      if (GetParam().prefix_caching) {
        ASSERT_LE(used, blocks) << "seed " << seed << " step " << step;
      } else {
        ASSERT_EQ(used, blocks) << "seed " << seed << " step " << step;
      }
    }
    const SchedulerCounters& counters = scheduler.counters();
    EXPECT_EQ(computed + found, needed + counters.lost_tokens) << "seed " << seed;
    EXPECT_EQ(found, counters.hit_blocks * kBlock);
    EXPECT_LE(counters.hit_blocks, counters.prompt_blocks);
    EXPECT_EQ(finished, static_cast<std::int64_t>(kRequests));
    EXPECT_EQ(scheduler.num_free_blocks(), GetParam().usable_blocks);
    if (GetParam().usable_blocks < 20) {
      EXPECT_GT(counters.preemptions, 0) << "nothing was lost in this test";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Caches, ConservationOfTokens,
                         testing::Values(Case{12, false}, Case{12, true}, Case{200, false}, Case{200, true}));

/// Each step takes a pseudo-random time from 1 ps on.
class ErraticStepTime : public StepTime {
 public:
  Picoseconds duration(const StepShape& shape) override {
    return Picoseconds{1 +
                       static_cast<std::int64_t>(mix64(static_cast<std::uint64_t>(shape.num_tokens())) % 1'000'000)};
  }
};

// Nobody is answered before being scheduled, nor scheduled before arriving; a step ends after it began.
TEST(Conservation, TimeNeverGoesBack) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    RandomStream random(seed, "time");
    RequestTrace trace;
    Picoseconds arrival{0};
    for (int i = 0; i < 80; ++i) {
      arrival += Picoseconds{static_cast<std::int64_t>(random.below(3'000'000))};
      trace.requests.push_back({.arrival = arrival,
                                .input_tokens = 1 + static_cast<std::int64_t>(random.below(200)),
                                .output_tokens = 1 + static_cast<std::int64_t>(random.below(50)),
                                .shared_blocks = {}});
    }
    ErraticStepTime step_time;
    const ServingOutcome outcome =
        serve(trace, {.num_blocks = 30, .max_num_seqs = 5, .max_num_batched_tokens = 64}, step_time);
    Picoseconds last{0};
    for (std::size_t i = 0; i < trace.requests.size(); ++i) {
      const RequestTimes& times = outcome.requests[i];
      EXPECT_EQ(times.queued, trace.requests[i].arrival);
      EXPECT_GE(times.scheduled, times.queued);
      EXPECT_GT(times.first_token, times.scheduled);
      EXPECT_GE(times.last_token, times.first_token);
      EXPECT_EQ(times.last_token == times.first_token, times.output_tokens == 1);
      last = std::max(last, times.last_token);
    }
    EXPECT_EQ(outcome.makespan, last - trace.requests.front().arrival);
  }
}

}  // namespace
}  // namespace kvtide::serving

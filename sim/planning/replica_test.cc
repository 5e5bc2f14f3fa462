#include "planning/replica.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvtide::planning {
namespace {

/// Everything that a replica refers to.
struct Parts {
  Parts(const std::string& name, const std::string& gpu_name, const std::string& engine)
      : plan(parse_plan(
            "name: p\nmodel: " + name + "\ntrace: {synthetic: {kind: uniform, tokens: 256}}\nfidelity: roofline\n" +
                "workload: {poisson: {rate: \"1 /s\", input_tokens: 10, output_tokens: 2, requests: 10}}\nengine: " +
                engine + "\nplan: {gpus: [" + gpu_name + "], minimize: gpus, slo: {ttft_p95: \"900 s\"}}\n",
            "p.yaml", ".")),
        run(run_of(plan, plan.policies[0], gpu_name, 1)),
        model(load_model(name)),
        gpu(profile_of(plan, gpu_name), run.setting.fidelity),
        policy(measure_policy(plan, plan.policies[0], load_traffic(*run.setting.serving, model, 1), model,
                              experiment::TraceInputs(run.setting.trace, run.setting.loss, 1))) {}
  [[nodiscard]] Replica replica(std::int64_t longest, double memory_overhead = 1) {
    return {run, policy, model, gpu, {longest, longest}, {}, {.memory_overhead = memory_overhead}};
  }

  Plan plan;
  experiment::Run run;
  Model model;
  gpu::Gpu gpu;
  Policy policy;
};

/// Gemma-3-4B: 29 layers with a window of 1,024 beside 5 that keep all, all alike: a token of the windows weighs 5.8 of an entry.
struct Windows : public testing::Test {
  Parts parts{"gemma-3-4b", "h200-sxm", "{num_blocks: 3000}"};
  [[nodiscard]] Replica replica(std::int64_t longest) { return parts.replica(longest); }
};

// Within one step of 8,192 tokens a window keeps the whole prompt: n blocks and 5.8 n, rounded up, of 2,999 usable ones. n = 441: 441 +
// 2,558 = 2,999, so 441 x 16 = 7,056 tokens; 442 + 2,564 are 3,006.
TEST_F(Windows, TheLongestPromptIsTheOneThatTheEngineRuns) {
  const std::int64_t longest = replica(100).longest_context();
  EXPECT_EQ(longest, 7056);
  const auto answer = [&](std::int64_t prompt) {  // the one token of the answer is never stored
    serving::RequestTrace trace;
    trace.requests.push_back({.arrival = {}, .input_tokens = prompt, .output_tokens = 1, .shared_blocks = {}});
    return replica(100).serve(trace, parts.plan.objectives).requests;
  };
  EXPECT_EQ(answer(longest), 1);
  EXPECT_THROW((void)answer(longest + 1), InputError);
}

TEST_F(Windows, GivenBlocksMustHoldTheLongestRequest) {
  EXPECT_NO_THROW((void)replica(7057));
  EXPECT_THROW((void)replica(7058), InputError);
}

// 8,000 prompt tokens of 4.3 billion parameters are 2 x 4.3e9 x 8,000 = 6.9e13 FLOP, over 50 ms at the H200's 989 TFLOP/s; 100 tokens
// are bound by 8.6 GB of weights at 4.8 TB/s, 2 ms. Of 2,001 answers the 90th percentile is number 1,800 from 0 on: 200 late ones are the
// numbers above it, 201 reach it. Every tenth request is a long one; a sample with a stride of ten would see nothing else.
TEST_F(Windows, ThePercentileOfRequestsAloneIsThatOfAllOfThem) {
  parts.run.setting.serving->num_blocks = 4000;
  Replica engine = replica(8001);
  const auto alone = [&](std::int64_t num_long, const std::vector<Objective>& objectives) {
    Traffic traffic;
    for (std::int64_t i = 0; i < 2001; ++i) {
      traffic.trace.requests.push_back({.arrival = from_seconds(static_cast<double>(i)),
                                        .input_tokens = i % 10 == 0 && i < 10 * num_long ? 8000 : 100,
                                        .output_tokens = 1,
                                        .shared_blocks = {}});
    }
    return engine.serve_alone(traffic, objectives);
  };
  const Experience all = alone(201, {});
  EXPECT_EQ(all.requests, 2001);
  EXPECT_NEAR(all.ttft.p99, all.ttft.p90, 1e-9);  // nobody waits
  const std::vector<Objective> fast{{.metric = Metric::ttft, .percentile = 90, .seconds = 30e-3}};
  EXPECT_TRUE(alone(200, fast).is_good());
  EXPECT_FALSE(alone(201, fast).is_good());
}

// Blocks of 16 keep a quarter: 400 tokens, most of them an answer, hold 400 / 4 = 100 and the block that is being filled, 8
// blocks. A prompt is
// whole while it is computed: 304 tokens are the 19 blocks beside the null block.
TEST(GivenBlocks, HoldAnAnswerAsItIsEvicted) {
  Parts parts{"smollm2-135m", "l4", "{num_blocks: 20}"};
  parts.policy.growth = {.keep_ratio = 0.25, .interval = 16};
  const auto replica = [&](const Longest& longest) {
    return Replica(parts.run, parts.policy, parts.model, parts.gpu, longest, {});
  };
  EXPECT_NO_THROW((void)replica({.prompt = 304, .total = 401}));
  EXPECT_THROW((void)replica({.prompt = 305, .total = 401}), InputError);
}

// SGLang keeps back 512 MB + 1.5 MB a token of a step of 8,192 + 1 / 8 GB = 12.925 GB; a fifth of that is 2.585 GB, or 112,196 tokens of
// 30 layers x 3 heads x 64 channels x 2 (K, V) x 2 B = 23,040 B. Blocks are of 16.
TEST(MemoryOverhead, IsTheReserveThatSglangsRuleGives) {
  Parts parts{"smollm2-135m", "l4", "{kind: sglang}"};
  const std::int64_t plain = parts.replica(100).kv_tokens();
  EXPECT_NEAR(static_cast<double>(plain - parts.replica(100, 1.2).kv_tokens()), 112196, 16);
  EXPECT_NEAR(static_cast<double>(parts.replica(100, 0.8).kv_tokens() - plain), 112196, 16);
}

TEST(MemoryOverhead, DecidesNothingBesideAGivenReserveOrCache) {
  for (const char* engine : {"{kind: sglang, gpu_memory_utilization: 0.8}", "{num_blocks: 500}"}) {
    Parts parts{"smollm2-135m", "l4", engine};
    EXPECT_FALSE(assumes_memory_overhead(*parts.run.setting.serving));
    EXPECT_EQ(parts.replica(100).kv_tokens(), parts.replica(100, 1.2).kv_tokens());
  }
  Parts vllm{"smollm2-135m", "l4", "{kind: vllm}"};
  EXPECT_TRUE(assumes_memory_overhead(*vllm.run.setting.serving));
  EXPECT_GT(vllm.replica(100).kv_tokens(), vllm.replica(100, 1.2).kv_tokens());
}

}  // namespace
}  // namespace kvtide::planning

#include "planning/rate_bound.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "planning/replica.h"

namespace kvtide::planning {
namespace {

// Through both points: (20 - 10) / 99 = 0.101 ms a token and 9.899 fixed: 2 steps, 10 tokens: 19.80 + 1.01 = 20.81 ms. With the least of
// everything fixed, 10 ms and nothing a token, 20.00; with nothing fixed, 20 / 100 ms a token, 2.0. The lines tried are a hundredth apart:
// fixed 9.9 allows min((10 - 9.9) / 1, (20 - 9.9) / 100) = 0.1 ms a token: 19.8 + 1 = 20.8.
TEST(LeastSeconds, IsTheLineThatAsksMost) {
  const std::vector<StepCost> costs{{1, 10e-3}, {100, 20e-3}};
  EXPECT_NEAR(least_seconds(costs, 10, 2), 20.8e-3, 1e-9);
  // A twentieth of a step: 0.05 x fixed + 10 x each; fixed 0, each 0.2: 2 ms; fixed 9.9, each 0.1: 1.495 ms.
  EXPECT_NEAR(least_seconds(costs, 10, 0.05), 2e-3, 1e-9);
  EXPECT_EQ(least_seconds(costs, 0, 0), 0);
}

TEST(StepSizes, GrowByTilesUpToTheBudgetOrBeyond) {
  EXPECT_EQ(step_sizes(1), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(step_sizes(100), (std::vector<std::int64_t>{1, 2, 4, 8, 16, 32, 64, 96, 128}));
  EXPECT_EQ(step_sizes(8193).back(), 8192 + 1024);
}

Traffic traffic_of(const std::vector<std::pair<std::int64_t, std::int64_t>>& lengths, std::size_t count) {
  Traffic traffic;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [input, output] = lengths[i % lengths.size()];
    traffic.trace.requests.push_back({.arrival = from_seconds(static_cast<double>(i)),
                                      .input_tokens = input,
                                      .output_tokens = output,
                                      .shared_blocks = {}});
  }
  return with_longer_outputs(traffic, 1);  // sums up
}

// 10 prompt tokens, 3 outputs: decodes read 11 and 12 entries. 30 and 1: none. Means: 20 tokens, 1 decode, 11.5 entries.
TEST(MeanWork, CountsDecodesByWhatTheyRead) {
  const MeanWork work = mean_work(traffic_of({{10, 3}, {30, 1}}, 2), {}, false);
  EXPECT_DOUBLE_EQ(work.prompt_tokens, 20);
  EXPECT_DOUBLE_EQ(work.decodes, 1);
  EXPECT_DOUBLE_EQ(work.entries, 11.5);
}

// Contexts of 11 and 12 beside windows of 11 that weigh 2: 11 + 22 and 12 + 22 take room. Windows alone: 22 each.
TEST(MeanWork, CountsTheRoomOfWindows) {
  serving::CacheGrowth growth{.window = 11, .window_weight = 2};
  EXPECT_DOUBLE_EQ(mean_work(traffic_of({{10, 3}}, 1), growth, false).room, 33 + 34);
  growth.has_whole_layers = false;
  EXPECT_DOUBLE_EQ(mean_work(traffic_of({{10, 3}}, 1), growth, false).room, 22 + 22);
  growth.window = 12;
  EXPECT_DOUBLE_EQ(mean_work(traffic_of({{10, 3}}, 1), growth, false).room, 22 + 24);
}

// Of 30 tokens 2 blocks of 16 may be found, but one token is always computed; of 40 tokens 8 are left.
TEST(MeanWork, LeavesOutWhatAPrefixCacheMayHold) {
  Traffic traffic = traffic_of({{30, 1}, {40, 1}}, 2);
  traffic.trace.shared_block_tokens = 16;
  for (serving::Request& request : traffic.trace.requests) request.shared_blocks = {1, 2};
  EXPECT_DOUBLE_EQ(mean_work(traffic, {}, true).prompt_tokens, (1 + 8) / 2.0);
  EXPECT_DOUBLE_EQ(mean_work(traffic, {}, false).prompt_tokens, 35);
}

// Blocks of 64 keep half, 8 tokens always: whatever the growth really holds, the sum is no more than that and not much less: a block waits
// half full on the mean, so 64 x 0.5 / 2 = 16 entries fewer.
TEST(MeanWork, AsksNoMoreThanACompressedCacheHolds) {
  const serving::CacheGrowth growth{.keep_ratio = 0.5, .always_kept = 8, .interval = 64};
  double held = 0;
  for (std::int64_t context = 1001; context < 1000 + 640; ++context) {
    held += static_cast<double>(growth.held(context - 1) + 1);
  }
  const MeanWork work = mean_work(traffic_of({{1000, 640}}, 1), growth, false);
  EXPECT_LE(work.entries, held);
  EXPECT_GE(work.entries, held - 639 * 17.0);
}

struct Load {
  const char* name;
  const char* model;
  const char* gpu;
  const char* engine;
  const char* compression;
  std::vector<std::pair<std::int64_t, std::int64_t>> lengths;
  std::size_t requests;
  std::int64_t batch;
  std::int64_t shared = 0;  ///< blocks of 16 tokens that all requests have
  Calibration calibration{};
  friend void PrintTo(const Load& load, std::ostream* out) { *out << load.name; }
};

/// A batch that empties at the end of a short trace, and what mixed steps round, stand between the two.
constexpr double kMostAbove = 1.6;

class RateBound : public testing::TestWithParam<Load> {};

// Everything at once: a replica that never waits serves what it can. Within 1.5 %: the last two of 200 requests are left out.
TEST_P(RateBound, IsAboveWhatASaturatedReplicaServesAndNear) {
  const Load& load = GetParam();
  const Plan plan = parse_plan(
      fmt::format("name: p\nmodel: {}\ntrace: {{synthetic: {{kind: uniform, tokens: 1024}}}}\nfidelity: roofline\n"
                  "workload: {{poisson: {{rate: \"1 /s\", input_tokens: 10, output_tokens: 2, requests: 10}}}}\n"
                  "engine: {}\nplan: {{gpus: [{}], minimize: gpus, slo: {{latency_p99: \"900000 s\"}}, "
                  "loss: {{mean_max: 1, worst_max: 1}}}}\n",
                  load.model, load.engine, load.gpu),
      "p.yaml", ".");
  Traffic traffic = traffic_of(load.lengths, load.requests);
  traffic.trace.shared_block_tokens = load.shared > 0 ? 16 : 0;
  for (serving::Request& request : traffic.trace.requests) {
    for (std::int64_t block = 0; block < load.shared; ++block) {
      request.shared_blocks.push_back(static_cast<std::uint64_t>(block));
    }
  }
  const PolicyChoice choice{"p", load.compression, {}};
  const experiment::Run run = run_of(plan, choice, load.gpu, 1);
  const Model model = load_model(load.model);
  const experiment::TraceInputs trace(run.setting.trace, run.setting.loss, run.setting.seed);
  const Policy policy = measure_policy(plan, choice, traffic, model, trace);
  gpu::Gpu gpu(profile_of(plan, load.gpu), run.setting.fidelity);
  Replica replica(run, policy, model, gpu, traffic.longest, load.calibration);
  replica.set_max_num_seqs(load.batch);
  const Experience experience = replica.serve_all(traffic, 1e6, 1, plan.objectives);
  const double served = 0.985 * static_cast<double>(load.requests) / experience.latency.p99;
  const double bound = replica.rate_bound(traffic);
  EXPECT_GE(bound, served);
  EXPECT_LE(bound, kMostAbove * served);
}

constexpr const char* kVllm = "{kind: vllm}";
INSTANTIATE_TEST_SUITE_P(
    Loads, RateBound,
    testing::Values(
        // One step of 65,536 tokens of prompts of 100 has little of the attention of one prompt of 65,536.
        Load{"short prompts",
             "llama-3.1-8b",
             "h100-sxm",
             "{kind: vllm, max_num_batched_tokens: 65536}",
             "none",
             {{100, 1}},
             2000,
             1024},
        Load{"middle prompts", "llama-3.1-8b", "l40s", kVllm, "none", {{700, 1}, {1300, 1}}, 200, 256},
        Load{"long prompts", "llama-3.1-8b", "h100-sxm", kVllm, "none", {{30000, 1}}, 200, 256},
        Load{"decodes", "llama-3.1-8b", "h100-sxm", kVllm, "none", {{20, 400}}, 600, 256},
        // Contexts and outputs against one another: most tokens are decoded where contexts are short.
        Load{"opposed lengths", "llama-3.1-8b", "l40s", kVllm, "none", {{4000, 10}, {100, 1990}}, 600, 1024},
        Load{"full cache", "llama-3.1-8b", "l40s", kVllm, "none", {{2000, 300}}, 300, 1024},
        Load{"mixed", "smollm2-135m", "l4", kVllm, "none", {{500, 50}}, 300, 64},
        Load{"small model", "smollm2-135m", "l4", kVllm, "none", {{100, 1}}, 2000, 64},
        Load{"sglang", "llama-3.1-8b", "l40s", "{kind: sglang}", "none", {{1000, 200}}, 300, 256},
        Load{"fp8", "llama-3.1-8b", "l40s", kVllm, "{preset: fp8}", {{2000, 300}}, 300, 512},
        Load{"evicted",
             "llama-3.1-8b",
             "l40s",
             kVllm,
             "{block_size: 64, stages: [{evict: {scorer: attention_sum, granularity: block, keep_ratio: 0.25}}]}",
             {{800, 400}},
             300,
             512},
        Load{"shared", "llama-3.1-8b", "h100-sxm", kVllm, "none", {{1000, 100}}, 400, 256, 60},
        Load{"sliding windows", "gemma-2-9b", "h100-sxm", kVllm, "none", {{6000, 300}}, 200, 128},
        Load{"windows alone", "mistral-7b-v0.1", "l40s", kVllm, "none", {{7000, 400}}, 200, 128},
        // 29 windows beside 5 whole layers: 600 tokens take 6.8 times 600 entries.
        Load{"cache full of windows", "gemma-3-4b", "h200-sxm", "{num_blocks: 3000}", "none", {{500, 200}}, 300, 256},
        Load{"low rank", "llama-3.1-8b", "h100-sxm", kVllm, "{preset: palu}", {{1500, 200}}, 300, 128},
        Load{"unread pages", "llama-3.1-8b", "h100-sxm", kVllm, "{preset: quest}", {{3000, 300}}, 300, 128},
        Load{"calibrated",
             "llama-3.1-8b",
             "h100-sxm",
             kVllm,
             "none",
             {{500, 100}},
             400,
             256,
             0,
             {.step_factor = 1.3, .step_gap = 5e-3}}),
    [](const auto& info) {
      std::string name = info.param.name;
      std::ranges::replace(name, ' ', '_');
      return name;
    });

}  // namespace
}  // namespace kvtide::planning

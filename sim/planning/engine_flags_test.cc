#include "planning/engine_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace kvtide::planning {
namespace {

using testing::HasSubstr;
using testing::Not;

kv::Compression stored_as(const std::string& format) {
  kv::Compression setting;
  kv::Quantize stage;
  stage.k_format = stage.v_format = format;
  setting.stages = {stage};
  return setting;
}

TEST(CacheType, IsTheStacksOwnNameOrNone) {
  EXPECT_EQ(cache_type("vllm", stored_as("fp8_e4m3")), "fp8");
  EXPECT_EQ(cache_type("sglang", stored_as("fp8_e4m3")), "fp8_e4m3");
  EXPECT_EQ(cache_type("trtllm", stored_as("nvfp4")), "nvfp4");
  EXPECT_EQ(cache_type("trtllm", stored_as("fp8_e5m2")), "");
  EXPECT_EQ(cache_type("vllm", stored_as("q4_0")), "");
}

TEST(CacheType, IsNoneForMoreThanOneStageOrFormat) {
  kv::Compression two = stored_as("fp8_e4m3");
  two.stages.insert(two.stages.begin(), kv::Evict{});
  EXPECT_EQ(cache_type("vllm", two), "");
  kv::Compression mixed = stored_as("fp8_e4m3");
  std::get<kv::Quantize>(mixed.stages[0]).v_format = "fp8_e5m2";
  EXPECT_EQ(cache_type("vllm", mixed), "");
}

TEST(ProbeSet, HoldsTheWorstPlacesAndControlsApart) {
  // Worst: 1 (.9); 2 is next to it. Controls: 0 is next to 1, so 3.
  const std::vector<Probe> probes = probe_set({0, .9, .8, 0, .1, 0}, 4, 2, 2);
  ASSERT_EQ(probes.size(), 2U);
  EXPECT_EQ(probes[0].position, 1);
  EXPECT_EQ(probes[0].phase, 1);
  EXPECT_DOUBLE_EQ(probes[0].loss, .9);
  EXPECT_EQ(probes[1].position, 3);
  EXPECT_TRUE(probe_set({}, 4, 2, 2).empty());
}

TEST(ProbeSet, PlacesThatWereNotMeasuredAreNone) {
  const double none = std::nan("");
  // Worst of the measured: 3 (.9); the best that is not next to it: 1 (0).
  const std::vector<Probe> probes = probe_set({none, 0, none, .9, none, .8, none}, 4, 2, 2);
  ASSERT_EQ(probes.size(), 2U);
  EXPECT_EQ(probes[0].position, 3);
  EXPECT_EQ(probes[1].position, 1);
  EXPECT_TRUE(probe_set({none, none}, 4, 2, 2).empty());
}

PlanOutcome chosen(const kv::Compression& setting) {
  PlanOutcome outcome;
  Policy policy;
  policy.label = "p";
  policy.setting = setting;
  policy.run.setting.serving = experiment::ServingSetting{};
  policy.run.setting.compression = setting;
  policy.loss_profile = {0, 0.5};
  outcome.policies = {policy};
  Candidate best;
  best.is_feasible = true;
  best.tensor_parallel = 4;
  best.max_num_seqs = 128;
  outcome.candidates = {best};
  outcome.best = 0;
  return outcome;
}

TEST(EmittedSetting, HasFlagsPaddingAndProbes) {
  Plan plan;
  plan.model = "llama-3.1-8b";
  const std::string text = emitted_setting("vllm", plan, chosen(stored_as("fp8_e4m3")));
  EXPECT_THAT(text, HasSubstr("--tensor-parallel-size 4"));
  EXPECT_THAT(text, HasSubstr("--max-num-seqs 128"));
  EXPECT_THAT(text, HasSubstr("--kv-cache-dtype fp8\n"));
  EXPECT_THAT(text, HasSubstr("# 1,1,0.500"));
  // Blocks of 128: a prefix of 256 + 42 tokens lacks 86 to 384.
  EXPECT_THAT(text, HasSubstr("a prefix of 298 tokens gets 86 more"));
  EXPECT_THAT(emitted_setting("trtllm", plan, chosen(stored_as("nvfp4"))), HasSubstr("dtype: nvfp4"));
}

TEST(EmittedSetting, AnotherEnginesMemoryShareIsNotVllms) {
  PlanOutcome outcome = chosen(kv::Compression{});
  outcome.policies[0].run.setting.serving->memory_share = 0.8;
  EXPECT_THAT(emitted_setting("vllm", Plan{}, outcome), HasSubstr("--gpu-memory-utilization 0.8 "));
  outcome.policies[0].run.setting.serving->engine = "trtllm";
  EXPECT_THAT(emitted_setting("vllm", Plan{}, outcome), Not(HasSubstr("--gpu-memory-utilization")));
}

// 2,000 blocks of 16 tokens, one of them the null block: 31,984 tokens. vLLM counts that block, too.
TEST(EmittedSetting, IsTheEngineThatWasJudged) {
  PlanOutcome outcome = chosen(kv::Compression{});
  experiment::ServingSetting& engine = *outcome.policies[0].run.setting.serving;
  engine.num_blocks = 2000;
  engine.scheduling = serving::SchedulingPolicy::priority;
  const std::string vllm = emitted_setting("vllm", Plan{}, outcome);
  EXPECT_THAT(vllm, HasSubstr("--num-gpu-blocks-override 2000"));
  EXPECT_THAT(vllm, HasSubstr("--scheduling-policy priority"));
  EXPECT_THAT(vllm, Not(HasSubstr("# Judged")));
  engine.engine = "sglang";
  const std::string sglang = emitted_setting("sglang", Plan{}, outcome);
  EXPECT_THAT(sglang, HasSubstr("--page-size 16"));
  EXPECT_THAT(sglang, HasSubstr("--max-total-tokens 31984"));
  EXPECT_THAT(sglang, HasSubstr("--enable-priority-scheduling --schedule-low-priority-values-first"));
  engine.engine = "trtllm";
  engine.evicts_none = false;
  const std::string trtllm = emitted_setting("trtllm", Plan{}, outcome);
  EXPECT_THAT(trtllm, HasSubstr("\nscheduler_config:\n  capacity_scheduler_policy: MAX_UTILIZATION\n"));
  EXPECT_THAT(trtllm, HasSubstr("\n  tokens_per_block: 16\n  max_tokens: 31984\n"));
  EXPECT_THAT(trtllm, HasSubstr("# Judged with what trtllm has no flag for: scheduling_policy priority.\n"));
  engine.evicts_none = true;
  EXPECT_THAT(emitted_setting("trtllm", Plan{}, outcome), Not(HasSubstr("scheduler_config")));
}

TEST(EmittedSetting, NamesWhatWasJudgedAndHasNoFlag) {
  PlanOutcome outcome = chosen(kv::Compression{});
  experiment::ServingSetting& engine = *outcome.policies[0].run.setting.serving;
  engine.watermark = 0.05;
  engine.swap_space = 4e9;
  engine.routing = serving::Routing::least_loaded;
  EXPECT_THAT(emitted_setting("vllm", Plan{}, outcome),
              HasSubstr("# Judged with what vllm has no flag for: watermark 0.05, swap_space 4000000000 B, routing "
                        "least_loaded (the router's in front).\n"));
  EXPECT_THAT(emitted_setting("sglang", Plan{}, outcome),
              HasSubstr("# Judged as vllm shares memory and schedules, not as sglang does.\n"));
}

TEST(EmittedSetting, NamesTheFormatOfWeightsThatAPlanAskedFor) {
  Plan plan;
  plan.model = "m";
  EXPECT_THAT(emitted_setting("vllm", plan, chosen(stored_as("fp8_e4m3"))), Not(HasSubstr("weights in")));
  plan.weights = "w4a16";
  EXPECT_THAT(emitted_setting("vllm", plan, chosen(stored_as("fp8_e4m3"))),
              HasSubstr("# Judged with weights in w4a16: "));
}

TEST(EmittedSetting, SaysWhereAStackHasNoFlag) {
  EXPECT_THAT(emitted_setting("vllm", Plan{}, chosen(stored_as("q4_0"))), HasSubstr("has no flag"));
  const std::string plain = emitted_setting("sglang", Plan{}, chosen(kv::Compression{}));
  EXPECT_THAT(plain, Not(HasSubstr("has no flag")));
  EXPECT_THAT(plain, Not(HasSubstr("--kv-cache-dtype")));
  EXPECT_THROW((void)emitted_setting("vllm", Plan{}, PlanOutcome{}), InputError);
}

}  // namespace
}  // namespace kvtide::planning

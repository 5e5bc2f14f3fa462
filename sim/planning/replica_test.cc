#include "planning/replica.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvtide::planning {
namespace {

/// Everything that a replica refers to. Gemma-3-4B: 29 layers with a window of 1,024 beside 5 that keep all, all alike: a token of the
/// windows weighs 5.8 of an entry.
class Windows : public testing::Test {
 protected:
  [[nodiscard]] Replica replica(std::int64_t longest) { return {run_, policy_, model_, gpu_, longest, {}}; }

  Plan plan_ = parse_plan(
      "name: p\nmodel: gemma-3-4b\ntrace: {synthetic: {kind: uniform, tokens: 256}}\nfidelity: roofline\n"
      "workload: {poisson: {rate: \"1 /s\", input_tokens: 10, output_tokens: 2, requests: 10}}\n"
      "engine: {num_blocks: 3000}\nplan: {gpus: [h200-sxm], minimize: gpus, slo: {ttft_p95: \"900 s\"}}\n",
      "p.yaml", ".");
  experiment::Run run_ = run_of(plan_, plan_.policies[0], "h200-sxm", 1);
  Model model_ = load_model("gemma-3-4b");
  gpu::Gpu gpu_{profile_of(plan_, "h200-sxm"), run_.setting.fidelity};
  Policy policy_ = measure_policy(plan_, plan_.policies[0], load_traffic(*run_.setting.serving, model_, 1), model_,
                                  experiment::TraceInputs(run_.setting.trace, run_.setting.loss, 1));
};

// Within one step of 8,192 tokens a window keeps the whole prompt: n blocks and 5.8 n, rounded up, of 2,999 usable ones. n = 441: 441 +
// 2,558 = 2,999, so 441 x 16 = 7,056 tokens; 442 + 2,564 are 3,006.
TEST_F(Windows, TheLongestPromptIsTheOneThatTheEngineRuns) {
  const std::int64_t longest = replica(100).longest_context();
  EXPECT_EQ(longest, 7056);
  const auto answer = [&](std::int64_t prompt) {  // the one token of the answer is never stored
    serving::RequestTrace trace;
    trace.requests.push_back({.arrival = {}, .input_tokens = prompt, .output_tokens = 1, .shared_blocks = {}});
    return replica(100).serve(trace, plan_.objectives).requests;
  };
  EXPECT_EQ(answer(longest), 1);
  EXPECT_THROW((void)answer(longest + 1), InputError);
}

TEST_F(Windows, GivenBlocksMustHoldTheLongestRequest) {
  EXPECT_NO_THROW((void)replica(7057));
  EXPECT_THROW((void)replica(7058), InputError);
}

}  // namespace
}  // namespace kvtide::planning

#include "planning/plan_search.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "planning/in_parallel.h"
#include "planning/sensitivity.h"

namespace kvtide::planning {
namespace {

using testing::HasSubstr;

Candidate candidate(std::int64_t index, double usd, double latency, std::size_t policy) {
  Candidate one;
  one.index = index;
  one.usd_per_hour = usd;
  one.num_gpus = index + 1;
  one.experience.latency.p95 = latency;
  one.policy = policy;
  one.is_feasible = true;
  return one;
}

/// Policy 0 loses nothing, policy 1 loses 0.3 at the worst position.
PlanOutcome outcome_of(std::vector<Candidate> candidates) {
  PlanOutcome outcome;
  outcome.policies.resize(2);
  outcome.policies[1].loss_worst = 0.3;
  outcome.candidates = std::move(candidates);
  return outcome;
}

TEST(ParetoFront, HoldsWhatNothingBeatsInCostLatencyAndLoss) {
  PlanOutcome outcome = outcome_of({
      candidate(0, 10, 1, 0),                            // lossless
      candidate(1, 8, 1, 1),                             // cheaper, lossy
      candidate(2, 9, 2, 1),                             // dearer and slower than 1 at the same loss
      candidate(3, 12, 0.5, 0), candidate(4, 10, 1, 0),  // as 0: the first stands for both
  });
  mark_front({}, outcome);
  std::vector<bool> front;
  for (const Candidate& one : outcome.candidates) front.push_back(one.is_on_front);
  EXPECT_EQ(front, (std::vector<bool>{true, true, false, true, false}));
}

// 0: 1 GPU without a price, 1: 2 GPUs for 0.5 USD/h. In GPUs 0 is the better one; 0.5 must not be held against 1 GPU.
TEST(ParetoFront, CountsGpusWhereOnePriceIsNotKnown) {
  PlanOutcome outcome = outcome_of({candidate(0, std::nan(""), 1, 0), candidate(1, 0.5, 1, 0)});
  mark_front({}, outcome);
  EXPECT_TRUE(outcome.candidates[0].is_on_front);
  EXPECT_FALSE(outcome.candidates[1].is_on_front);
}

TEST(ParetoFront, WhatIsNotPossibleIsNotOnIt) {
  PlanOutcome outcome = outcome_of({candidate(0, 1, 1, 0), candidate(1, 5, 5, 1)});
  outcome.candidates[0].is_feasible = false;
  mark_front({}, outcome);
  EXPECT_FALSE(outcome.candidates[0].is_on_front);
  EXPECT_TRUE(outcome.candidates[1].is_on_front);
}

// 1 is dearer, slower and no less lossy than 0. That it is the one whose rate was searched does not make it better; where the goal is the
// rate, all rates were.
TEST(ParetoFront, ComparesRatesOnlyWhereTheyAreTheGoal) {
  PlanOutcome outcome = outcome_of({candidate(0, 1, 1, 0), candidate(1, 2, 2, 0)});
  outcome.candidates[1].rate = 50;
  mark_front({}, outcome);
  EXPECT_FALSE(outcome.candidates[1].is_on_front);
  Plan plan;
  plan.goal = Goal::rate;
  mark_front(plan, outcome);
  EXPECT_TRUE(outcome.candidates[1].is_on_front);
}

TEST(Choice, IsByTheGoalAndAtEqualCostByLoss) {
  PlanOutcome outcome = outcome_of({candidate(0, 10, 1, 1), candidate(1, 10, 1, 0), candidate(2, 9, 1, 1)});
  outcome.candidates[0].rate = 30;
  const auto& list = outcome.candidates;
  Plan plan;
  plan.goal = Goal::cost;
  EXPECT_TRUE(is_better(plan, outcome, list[2], list[0]));
  EXPECT_TRUE(is_better(plan, outcome, list[1], list[0]));  // same cost, no loss
  plan.goal = Goal::gpus;
  EXPECT_TRUE(is_better(plan, outcome, list[0], list[2]));  // 1 GPU against 3
  plan.goal = Goal::rate;
  EXPECT_TRUE(is_better(plan, outcome, list[0], list[1]));  // 30 /s against 0
}

TEST(KvLimit, FivePercentMoreTrafficMakeALimit) {
  KvLimit limit{.is_known = true, .setting = "1 x g", .rate = 100, .rate_unlimited = 104, .rate_free = 108};
  EXPECT_FALSE(limit.is_memory());
  EXPECT_FALSE(limit.is_bandwidth());  // 108 / 104
  EXPECT_THAT(limit.text(), HasSubstr("is not the limit"));
  limit.rate_unlimited = 106;
  EXPECT_TRUE(limit.is_memory());
  EXPECT_THAT(limit.text(), HasSubstr("is the limit, its memory:"));
  limit.rate_free = 112;
  EXPECT_THAT(limit.text(), HasSubstr("its memory and its bandwidth"));
}

TEST(InParallel, TheErrorOfTheLowestIndexIsThrown) {
  for (const std::int64_t jobs : {1, 3}) {
    std::vector<int> done(10, 0);
    try {
      in_parallel(10, jobs, [&](std::size_t i) {
        done[i] = 1;
        if (i == 4 || i == 7) throw InputError(std::to_string(i));
      });
      FAIL();
    } catch (const InputError& error) {
      EXPECT_STREQ(error.what(), "4");
    }
    EXPECT_EQ(done, std::vector<int>(10, 1));
  }
}

/// SmolLM2-135M on an L4, 200 drawn requests: small enough for a unit test.
class Search : public testing::Test {
 protected:
  static Plan plan(const std::string& more) {
    return parse_plan(
        "name: p\nmodel: smollm2-135m\ntrace: experiments/traces/smollm2-135m-2k.h5\nfidelity: roofline\n"
        "workload: {poisson: {rate: \"50 /s\", input_tokens: 500, output_tokens: 50, requests: 200}}\n"
        "plan:\n  gpus: [l4]\n  max_num_seqs: [8]\n" +
            more + (more.find("slo:") == std::string::npos ? "  slo: {ttft_p95: \"1 s\", tpot_p95: \"20 ms\"}\n" : ""),
        "p.yaml", KVTIDE_SOURCE_DIR);
  }
};

TEST_F(Search, OneReplicaFewerWouldBreakAnObjective) {
  const Plan many = plan("  rate: \"400 /s\"\n");
  const PlanOutcome outcome = search(many, {});
  ASSERT_EQ(outcome.best, 0);
  const Candidate& best = outcome.candidates[0];
  ASSERT_GT(best.needed, 1);
  EXPECT_GE(best.rate, 400 * 0.97);  // what they carry, searched to 2 %
  Plan fewer = many;
  fewer.num_gpus = best.needed - 1;
  const PlanOutcome refused = search(fewer, {});
  EXPECT_EQ(refused.best, -1);
  EXPECT_FALSE(refused.candidates[0].reason.empty());
}

// Every step lasts 2 ms longer and every first token comes 100 ms later; queues can only add to that.
TEST_F(Search, AFittedServerIsSlowerByItsConstants) {
  const std::string rate = "  rate: \"10 /s\"\n";
  const PlanOutcome shipped = search(plan(rate), {});
  const PlanOutcome fitted = search(plan(rate + "  calibration: {step_gap: \"2 ms\", ttft_offset: \"100 ms\"}\n"), {});
  ASSERT_EQ(shipped.candidates.at(0).needed, 1);
  ASSERT_EQ(fitted.candidates.at(0).needed, 1);
  const Experience& before = shipped.candidates[0].experience;
  const Experience& after = fitted.candidates[0].experience;
  EXPECT_GE(after.tpot.p50 - before.tpot.p50, 2e-3 - 1e-9);
  EXPECT_GE(after.ttft.p50 - before.ttft.p50, 102e-3 - 1e-9);
}

TEST_F(Search, IsTheSameOnOneThreadAndOnMany) {
  const Plan several = plan("  rate: \"100 /s\"\n  tensor_parallel: [1, 2]\n  compression: [none, preset: fp8]\n");
  const PlanOutcome one = search(several, {.jobs = 1});
  const PlanOutcome four = search(several, {.jobs = 4});
  ASSERT_EQ(one.candidates.size(), 4U);
  EXPECT_EQ(one.best, four.best);
  for (std::size_t i = 0; i < one.candidates.size(); ++i) {
    EXPECT_EQ(one.candidates[i].needed, four.candidates[i].needed);
    EXPECT_EQ(one.candidates[i].experience.latency.p99, four.candidates[i].experience.latency.p99);
  }
}

TEST_F(Search, AnObjectiveThatARequestAloneBreaksIsSaidSo) {
  const PlanOutcome outcome = search(plan("  slo: {tpot_p95: \"1 us\"}\n"), {});
  EXPECT_EQ(outcome.best, -1);
  EXPECT_THAT(outcome.candidates[0].reason, HasSubstr("alone"));
}

// 8,000 prompt tokens take an L4 about 50 ms (0.13 billion parameters x 2 x 8,000 = 2.2 TFLOP, and as much attention again, at some 100
// TFLOP/s), the 100 behind the shared beginning under 10. Alone a request finds no beginning, so 30 ms would be out of reach for it; the
// rate that one replica carries, and what limits it, are known all the same.
TEST_F(Search, SharedBeginningsAreNotHeldAgainstARequestAlone) {
  const PlanOutcome outcome =
      search(parse_plan("name: p\nmodel: smollm2-135m\nfidelity: roofline\n"
                        "trace: {synthetic: {kind: uniform, tokens: 256}}\n"
                        "workload: {poisson: {rate: \"20 /s\", input_tokens: 8000, output_tokens: "
                        "5, requests: 200, prefixes: [{tokens: 7900, share: 1}]}}\n"
                        "plan: {gpus: [l4], slo: {ttft_p95: \"30 ms\"}, minimize: gpus}\n",
                        "p.yaml", "."),
             {});
  ASSERT_EQ(outcome.best, 0);
  EXPECT_EQ(outcome.candidates[0].needed, 1);
  EXPECT_GT(outcome.candidates[0].rate, 20);
  EXPECT_TRUE(outcome.kv_limit.is_known);
}

// Every fourth of 400 requests has 8,000 prompt tokens: four replicas, dealt round, leave them all to the first. Half of all requests are
// answered at once all the same.
TEST_F(Search, APeriodOfTheTraceIsNotHeldAgainstTheFleet) {
  const std::string file = testing::TempDir() + "periodic_" + std::to_string(::getpid()) + ".csv";
  {
    std::ofstream csv(file);
    csv << "arrival_s,input_tokens,output_tokens\n";
    for (int i = 0; i < 400; ++i) csv << i << (i % 4 == 0 ? ",8000,2\n" : ",100,2\n");
  }
  const PlanOutcome outcome =
      search(parse_plan("name: p\nmodel: smollm2-135m\nfidelity: roofline\n"
                        "trace: {synthetic: {kind: uniform, tokens: 256}}\nworkload: {requests: " +
                            file +
                            "}\nengine: {prefix_caching: false, num_blocks: 2000}\n"
                            "plan: {gpus: [l4], num_gpus: 4, slo: {ttft_p50: \"30 ms\"}, maximize: rate}\n",
                        "p.yaml", "."),
             {});
  std::filesystem::remove(file);
  ASSERT_EQ(outcome.best, 0);
  EXPECT_GT(outcome.candidates[0].rate, 10);
  EXPECT_TRUE(outcome.kv_limit.is_known);
}

// A file of lengths alone says nothing of how many requests come a second; at a given rate, or where the rate is asked for, it will do.
TEST_F(Search, RequestsWithoutTimesHaveNoRateToPlanFor) {
  const std::string file = testing::TempDir() + "lengths_" + std::to_string(::getpid()) + ".csv";
  {
    std::ofstream csv(file);
    csv << "input_tokens,output_tokens\n";
    for (int i = 0; i < 50; ++i) csv << "100,5\n";
  }
  const auto best_of = [&](const char* goal) {
    return search(parse_plan("name: p\nmodel: smollm2-135m\nfidelity: roofline\n"
                             "trace: {synthetic: {kind: uniform, tokens: 256}}\nworkload: {requests: " +
                                 file + "}\nplan: {gpus: [l4], slo: {ttft_p95: \"1 s\"}, " + goal + "}\n",
                             "p.yaml", "."),
                  {})
        .best;
  };
  try {
    (void)best_of("minimize: gpus");
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("p.yaml: plan.rate: all requests of the workload arrive at once"));
  }
  EXPECT_EQ(best_of("minimize: gpus, rate: \"5 /s\""), 0);
  EXPECT_EQ(best_of("maximize: rate, num_gpus: 1"), 0);
  std::filesystem::remove(file);
}

// Six candidates, settled four at a time: once there is a best one, at 0 USD/h, no number of free replicas is too dear.
TEST_F(Search, WhatCostsNothingIsCountedInAnyNumber) {
  Plan free = plan("  rate: \"100 /s\"\n  prices: {l4: \"0 USD/h\"}\n");
  free.max_num_seqs = {8, 16, 24, 32, 48, 64};
  const PlanOutcome outcome = search(free, {});
  ASSERT_EQ(outcome.candidates.size(), 6U);
  for (const Candidate& one : outcome.candidates) EXPECT_TRUE(one.is_exact) << one.max_num_seqs;
}

/// A cache of 300 blocks, which fp8 makes hold twice as much; bursts, of which the sample takes the worst.
Plan bursts_on_a_small_cache(const std::string& goal) {
  return parse_plan(
      "name: p\nmodel: smollm2-135m\ntrace: experiments/traces/smollm2-135m-2k.h5\nfidelity: roofline\n"
      "workload: {gamma: {rate: \"50 /s\", cv: 3, input_tokens: {lognormal: {mean: 500}}, output_tokens: "
      "{lognormal: {mean: 50}}, requests: 400}, long_requests: truncate}\n"
      "engine: {num_blocks: 300, max_model_len: 2048, max_num_batched_tokens: 2048}\n"
      "plan:\n  gpus: [l4]\n  max_num_seqs: [64, 96, 128, 192, 256]\n  sample_requests: 50\n  task: summarization\n"
      "  compression: [none, preset: fp8]\n  slo: {ttft_p95: \"300 ms\"}\n" +
          goal,
      "p.yaml", KVTIDE_SOURCE_DIR);
}

const Candidate& best_uncompressed(const Plan& plan, const PlanOutcome& outcome) {
  const Candidate* best = nullptr;
  for (const Candidate& one : outcome.candidates) {
    if (!outcome.policies[one.policy].loses_nothing()) continue;
    if (best == nullptr || is_better(plan, outcome, one, *best)) best = &one;
  }
  return *best;
}

// What compression saves is the choice against the fleet that a plan without compression chooses, which the sample of the worst
// burst alone would overstate.
TEST_F(Search, TheUncompressedFleetIsTheOneAPlanWithoutCompressionChooses) {
  for (const char* goal : {"  rate: \"300 /s\"\n  minimize: gpus\n", "  num_gpus: 4\n  maximize: rate\n"}) {
    const Plan both = bursts_on_a_small_cache(goal);
    const PlanOutcome outcome = search(both, {.jobs = 2});
    ASSERT_GE(outcome.best, 0);
    ASSERT_FALSE(outcome.policies[outcome.candidates[static_cast<std::size_t>(outcome.best)].policy].loses_nothing());
    const Candidate& without = best_uncompressed(both, outcome);
    EXPECT_TRUE(without.is_exact);

    Plan plain = both;
    plain.policies.resize(1);
    const PlanOutcome alone = search(plain, {.jobs = 2});
    const Candidate& chosen = alone.candidates.at(static_cast<std::size_t>(alone.best));
    EXPECT_EQ(without.needed, chosen.needed);
    EXPECT_EQ(without.max_num_seqs, chosen.max_num_seqs);
    if (both.goal != Goal::rate) continue;
    EXPECT_NEAR(without.rate, chosen.rate, 0.03 * chosen.rate);  // each searched to 2 %
  }
}

// The rate that the choice carries is said twice: of the fleet, and where its cache is asked for as the limit.
TEST_F(Search, TheLimitOfTheCacheIsToldOfEveryRequest) {
  Plan plain = bursts_on_a_small_cache("  rate: \"300 /s\"\n  minimize: gpus\n");
  plain.policies.resize(1);
  plain.max_num_seqs.resize(1);
  const PlanOutcome outcome = search(plain, {});
  ASSERT_EQ(outcome.best, 0);
  EXPECT_DOUBLE_EQ(outcome.kv_limit.rate, outcome.candidates[0].rate);
}

// One sequence at a time needs more replicas than eight do. Taken for as good as the best by its sample, it is counted once there is a
// best, found to be dearer, and stays possible.
TEST_F(Search, WhatIsDearerThanItsSampleSaidStaysPossible) {
  Plan several = plan("  rate: \"400 /s\"\n  minimize: gpus\n");
  several.max_num_seqs = {1, 8, 16, 24, 32};
  PlanOutcome outcome = search(several, {});
  ASSERT_GT(outcome.best, 0);
  const std::int64_t fewest = outcome.candidates[static_cast<std::size_t>(outcome.best)].needed;
  Candidate& one = outcome.candidates[0];
  one.is_feasible = true;
  one.needed = one.replicas = fewest;
  one.num_gpus = 1000;  // behind the others
  for (Candidate& each : outcome.candidates) each.is_exact = false;
  const Model model = load_model("smollm2-135m");
  gpu::Gpu gpu(profile_of(several, "l4"), outcome.policies[0].run.setting.fidelity);
  settle_choice(several, outcome,
                [&](const Candidate& candidate) {
                  experiment::Run run = run_of(several, several.policies[0], "l4", 1);
                  run.setting.serving->max_num_seqs = candidate.max_num_seqs;
                  return std::make_unique<Replica>(run, outcome.policies[0], model, gpu, outcome.traffic.longest,
                                                   Calibration{});
                },
                {.jobs = 1});
  EXPECT_TRUE(one.is_feasible) << one.reason;
  EXPECT_TRUE(one.is_exact);
  EXPECT_GT(one.needed, fewest);
}

TEST_F(Search, APolicyOverTheLossBoundIsNotPossible) {
  const PlanOutcome outcome = search(plan("  rate: \"10 /s\"\n  compression: [none, {block_size: 64, stages: [{evict: "
                                          "{scorer: attention_sum, granularity: "
                                          "block, keep_ratio: 0.05}}]}]\n  loss: {mean_max: 0.001, worst_max: 0.01}\n"),
                                     {});
  EXPECT_EQ(outcome.best, 0);
  EXPECT_THAT(outcome.candidates[1].reason, HasSubstr("allowed"));
}

TEST_F(Search, AModelThatDoesNotFitIsExplainedInBytes) {
  const Plan large = parse_plan(
      "name: p\nmodel: llama-3.1-70b\ntrace: experiments/traces/smollm2-135m-2k.h5\nfidelity: roofline\n"
      "workload: {poisson: {rate: \"1 /s\", input_tokens: 50, output_tokens: 5, requests: 10}}\n"
      "plan: {gpus: [l4], slo: {ttft_p95: \"1 s\"}}\n",
      "p.yaml", KVTIDE_SOURCE_DIR);
  const PlanOutcome outcome = search(large, {});
  EXPECT_EQ(outcome.best, -1);
  EXPECT_THAT(outcome.candidates[0].reason, HasSubstr("short by"));
}

// 500 + 50 tokens, the last one never stored: 549 are 35 blocks of 16, beside the null block.
TEST_F(Search, GivenBlocksMustHoldTheLongestRequest) {
  const auto with_blocks = [](std::int64_t blocks) {
    Plan one = plan("  rate: \"1 /s\"\n");
    one.experiment_head += fmt::format("engine: {{num_blocks: {}}}\n", blocks);
    return search(one, {});
  };
  EXPECT_EQ(with_blocks(36).best, 0);
  const PlanOutcome refused = with_blocks(35);
  EXPECT_EQ(refused.best, -1);
  EXPECT_EQ(refused.candidates.at(0).reason,
            "one request of 550 tokens needs 35 blocks of 16 tokens, the cache has 34: short by 1");
}

TEST_F(Search, ACandidateThatTurnsOutNotToRunLeavesTheOthers) {
  Plan two = plan("  rate: \"10 /s\"\n");
  two.max_num_seqs = {8, 16};
  PlanOutcome outcome = search(two, {});
  ASSERT_EQ(outcome.best, 0);
  const Model model = load_model("smollm2-135m");
  gpu::Gpu gpu(profile_of(two, "l4"), outcome.policies[0].run.setting.fidelity);
  outcome.best = -1;
  for (Candidate& one : outcome.candidates) one.is_exact = false;
  settle_choice(two, outcome,
                [&](const Candidate& one) {
                  if (one.index == 0) throw InputError("does not run");
                  experiment::Run run = run_of(two, two.policies[0], "l4", 1);
                  run.setting.serving->max_num_seqs = one.max_num_seqs;
                  return std::make_unique<Replica>(run, outcome.policies[0], model, gpu, outcome.traffic.longest,
                                                   Calibration{});
                },
                {.jobs = 2});
  EXPECT_EQ(outcome.best, 1);
  EXPECT_FALSE(outcome.candidates[0].is_feasible);
  EXPECT_EQ(outcome.candidates[0].reason, "does not run");
}

// 2 candidates, both possible, so that both are counted and are contenders; 4 assumptions both ways, bandwidth only in its own worlds.
TEST_F(Search, EachPartTellsHowFarItIs) {
  Plan two = plan("  rate: \"10 /s\"\n");
  two.max_num_seqs = {8, 16};
  std::map<SearchPart, std::pair<std::int64_t, std::int64_t>> seen;
  SearchOptions options;
  options.on_progress = [&](SearchPart part, std::int64_t done, std::int64_t total) { seen[part] = {done, total}; };
  const PlanOutcome outcome = search(two, options);
  (void)vary_assumptions(two, outcome, options);
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen.at(SearchPart::judging), (std::pair<std::int64_t, std::int64_t>{2, 2}));
  for (const auto& [part, progress] : seen) EXPECT_EQ(progress.first, progress.second) << static_cast<int>(part);
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A folder of the test's own: an L4 of 0.2 GB named as the shipped one, an L4 with a name of its own, a model's shape.
class OwnProfiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "plan_own_profiles_" + std::to_string(::getpid());
    std::filesystem::create_directories(folder_);
    const std::string l4 = text_of(std::string(KVTIDE_SOURCE_DIR) + "/hw_profiles/l4.yaml");
    write("small.yaml", l4, "24148453621 B", "200000000 B");
    write("own.yaml", l4, "name: l4\n", "name: my-own\n");
    write("shape.json", text_of(std::string(KVTIDE_SOURCE_DIR) + "/models/smollm2-135m.json"), "", "");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] Plan plan(const std::string& gpus) const {
    return parse_plan(
        "name: p\nmodel: shape.json\ntrace: {synthetic: {kind: uniform, tokens: 256}}\nfidelity: roofline\n"
        "workload: {poisson: {rate: \"10 /s\", input_tokens: 50, output_tokens: 5, requests: 50}}\n"
        "plan: {gpus: [" +
            gpus + "], minimize: gpus, slo: {ttft_p95: \"5 s\"}}\n",
        "p.yaml", folder_);
  }

 private:
  void write(const std::string& name, std::string text, const std::string& was, const std::string& is) const {
    const std::size_t place = text.find(was);
    ASSERT_NE(place, std::string::npos);
    std::ofstream(folder_ + "/" + name) << text.replace(place, was.size(), is);
  }
  std::string folder_;
};

// SmolLM2-135M: 134.5 million parameters of 2 B are 0.27 GB of weights, more than 0.2 GB; the shipped L4 has 24.
TEST_F(OwnProfiles, AreJudgedAsTheyAreAndNotAsTheShippedOneOfThatName) {
  const PlanOutcome outcome = search(plan("small.yaml"), {});
  EXPECT_EQ(outcome.best, -1);
  EXPECT_EQ(outcome.candidates.at(0).gpu, "l4");
  EXPECT_THAT(outcome.candidates[0].reason, HasSubstr("short by"));
}

// The model stands beside the plan file as well.
TEST_F(OwnProfiles, MayHaveANameThatNobodyShips) {
  const Plan own = plan("own.yaml");
  const PlanOutcome outcome = search(own, {});
  ASSERT_EQ(outcome.best, 0);
  EXPECT_EQ(outcome.candidates[0].gpu, "my-own");
  EXPECT_THAT(outcome.kv_limit.text(), HasSubstr("1 x my-own"));
  EXPECT_FALSE(vary_assumptions(own, outcome, {}).empty());
}

// Prices and the table go by the name: two of one name could not be told apart.
TEST_F(OwnProfiles, OfOneNameAreRefusedTogether) {
  try {
    (void)plan("l4, small.yaml");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(),
                testing::AllOf(HasSubstr("p.yaml:6"), HasSubstr("plan.gpus: two GPU types are named l4")));
  }
}

}  // namespace
}  // namespace kvtide::planning

#include "planning/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace kvtide::planning {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::Not;

std::string file(const std::string& plan) {
  return "name: p\nmodel: llama-3.1-8b\ntrace: t.h5\nworkload: {requests: r.csv}\nplan:\n" + plan;
}

Plan parsed(const std::string& plan) {
  return parse_plan(file(plan), "p.yaml", ".");
}

std::string error_of(const std::string& plan) {
  try {
    (void)parsed(plan);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

constexpr const char* kSlo = "  slo: {ttft_p95: \"500 ms\", tpot_p99: \"0.05 s\"}\n";

TEST(Plan, ObjectivesNameMetricAndPercentile) {
  const Plan plan = parsed(std::string("  gpus: [h100-sxm]\n") + kSlo);
  ASSERT_EQ(plan.objectives.size(), 2U);
  EXPECT_EQ(plan.objectives[0].name(), "ttft_p95");
  EXPECT_DOUBLE_EQ(plan.objectives[0].seconds, 0.5);
  EXPECT_EQ(plan.objectives[1].name(), "tpot_p99");
  EXPECT_DOUBLE_EQ(plan.objectives[1].seconds, 0.05);
}

TEST(Plan, AnUnknownKeyOrPercentileIsNamedWithItsLine) {
  EXPECT_THAT(error_of(std::string("  gpus: [h100-sxm]\n  gpu_count: 3\n") + kSlo),
              AllOf(HasSubstr("p.yaml:7"), HasSubstr("gpu_count")));
  EXPECT_THAT(error_of("  gpus: [h100-sxm]\n  slo: {ttft_p96: \"1 s\"}\n"), HasSubstr("ttft_p96"));
  EXPECT_THAT(error_of("  gpus: [h100-sxm]\n"), HasSubstr("at least one objective"));
}

// An experiment's engine may say how many GPUs share a layer; a plan chooses among its own list instead, and writes the number itself.
TEST(Plan, AnEnginesRanksAreThePlansToChooseAmong) {
  const auto plan_of = [](const std::string& more) {
    return parse_plan("engine: {max_num_seqs: 64, tensor_parallel: 2}\n" + file("  gpus: [h100-sxm]\n" + more + kSlo),
                      "p.yaml", ".");
  };
  const Plan plan = plan_of("");
  EXPECT_THAT(plan.tensor_parallel, ElementsAre(2));
  EXPECT_THAT(plan.experiment_head, AllOf(HasSubstr("engine: {max_num_seqs: 64}"), Not(HasSubstr("tensor_parallel"))));
  EXPECT_THROW((void)plan_of("  tensor_parallel: [1, 2]\n"), InputError);
}

TEST(Plan, WeightsReachEveryCandidate) {
  const auto plan_of = [](const std::string& head) {
    return parse_plan(head + file("  gpus: [h100-sxm]\n" + std::string(kSlo)), "p.yaml", ".");
  };
  EXPECT_EQ(plan_of("").weights, "published");
  EXPECT_THAT(plan_of("").experiment_head, Not(HasSubstr("weights")));
  EXPECT_EQ(plan_of("weights: w4a16\n").weights, "w4a16");
  EXPECT_THAT(plan_of("weights: w4a16\n").experiment_head, HasSubstr("weights: w4a16\n"));
  EXPECT_THROW((void)plan_of("weights: w3\n"), InputError);
}

TEST(Plan, BlockSizesMultiplyThePoliciesThatHaveNoneOfTheirOwn) {
  const Plan plan = parsed(std::string("  gpus: [h100-sxm]\n  block_size: [64, 128]\n"
                                       "  compression: [none, preset: h2o, {block_size: 32, stages: []}]\n") +
                           kSlo);
  ASSERT_EQ(plan.policies.size(), 4U);  // none once, h2o twice, the last as it is
  EXPECT_EQ(plan.policies[0].label, "none");
  EXPECT_EQ(plan.policies[1].label, "h2o B64");
  EXPECT_THAT(plan.policies[2].sets, ElementsAre(testing::Pair("compression.block_size", "128")));
  EXPECT_TRUE(plan.policies[3].sets.empty());
}

TEST(Plan, ABlockSizeInsideALabelledPolicyStandsAsWell) {
  const Plan plan = parsed(std::string("  gpus: [h100-sxm]\n  block_size: [64, 128]\n"
                                       "  compression: [{label: own, value: {block_size: 32, stages: []}}]\n") +
                           kSlo);
  ASSERT_EQ(plan.policies.size(), 1U);
  EXPECT_EQ(plan.policies[0].label, "own");
  EXPECT_TRUE(plan.policies[0].sets.empty());
}

std::vector<std::int64_t> limits_of(const std::string& engine, const std::string& plan) {
  return parse_plan("engine: " + engine + "\n" + file("  gpus: [h100-sxm]\n" + plan + kSlo), "p.yaml", ".")
      .max_num_seqs;
}

TEST(Plan, TheBatchLimitIsTheEnginesUnlessThePlanHasAList) {
  EXPECT_THAT(limits_of("{max_num_seqs: 512}", ""), ElementsAre(512));
  EXPECT_THAT(limits_of("{kind: vllm}", ""), ElementsAre(256));
  EXPECT_THAT(limits_of("{kind: vllm}", "  max_num_seqs: [64, 128]\n"), ElementsAre(64, 128));
  EXPECT_THAT(limits_of("{max_num_seqs: 512}", "  max_num_seqs: [64]\n"), ElementsAre(64));
}

TEST(Plan, SeedsOfTheWorkloadAreRefusedForTheyWouldChangeNothing) {
  const std::string seeds =
      "name: p\nmodel: llama-3.1-8b\ntrace: t.h5\nworkload: {poisson: {rate: \"1 /s\"}, seeds: 5}\n";
  try {
    (void)parse_plan(seeds + "plan:\n  gpus: [h100-sxm]\n" + kSlo, "p.yaml", ".");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("p.yaml:4"), HasSubstr("workload.seeds")));
  }
}

TEST(Plan, ALossOfAnotherKindThanItsBoundsIsRefused) {
  const auto with_metric = [](const std::string& metric) {
    return "name: p\nmodel: llama-3.1-8b\ntrace: t.h5\nworkload: {requests: r.csv}\nloss: {metric: " + metric +
           "}\nplan:\n  gpus: [h100-sxm]\n" + kSlo;
  };
  EXPECT_NO_THROW((void)parse_plan(with_metric("mass_loss"), "p.yaml", "."));
  for (const char* metric : {"bits_lost", "output_loss"}) {
    try {
      (void)parse_plan(with_metric(metric), "p.yaml", ".");
      FAIL();
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("p.yaml:5"), HasSubstr("loss.metric"), HasSubstr("mass_loss"), HasSubstr(metric)));
    }
  }
}

TEST(Plan, ALowestCostNeedsAPriceOfEveryGpu) {
  EXPECT_THAT(error_of(std::string("  gpus: [h20]\n") + kSlo), HasSubstr("no price is known for h20"));
  const Plan priced = parsed(std::string("  gpus: [h20]\n  prices: {h20: \"1.10 USD/h\"}\n") + kSlo);
  EXPECT_DOUBLE_EQ(priced.prices.find("h20")->usd_per_hour, 1.1);
  EXPECT_EQ(priced.prices.find("h20")->source, "the plan");
  EXPECT_EQ(parsed(std::string("  gpus: [h20]\n  minimize: gpus\n") + kSlo).goal, Goal::gpus);
}

TEST(Plan, AShippedPriceHasADateAndASourceAndYields) {
  const Plan plan = parsed(std::string("  gpus: [l40s]\n") + kSlo);
  ASSERT_TRUE(plan.prices.find("l40s"));
  EXPECT_FALSE(plan.prices.find("l40s")->date.empty());
  EXPECT_FALSE(plan.prices.find("l40s")->source.empty());
  const Plan own =
      parsed(std::string("  gpus: [l40s]\n  prices: {l40s: {value: \"2 USD/h\", date: \"2026-01-01\"}}\n") + kSlo);
  EXPECT_DOUBLE_EQ(own.prices.find("l40s")->usd_per_hour, 2);
  EXPECT_EQ(own.prices.find("l40s")->date, "2026-01-01");
}

TEST(Plan, ATaskBoundsTheLossUnlessThePlanDoes) {
  const Plan summary = parsed(std::string("  gpus: [l40s]\n  task: summarization\n") + kSlo);
  const Plan retrieval = parsed(std::string("  gpus: [l40s]\n  task: retrieval\n") + kSlo);
  EXPECT_LT(retrieval.loss.worst_max, summary.loss.worst_max);
  EXPECT_LT(retrieval.loss.mean_max, summary.loss.mean_max);
  const Plan own = parsed(std::string("  gpus: [l40s]\n  task: retrieval\n  loss: {worst_max: 0.5}\n") + kSlo);
  EXPECT_DOUBLE_EQ(own.loss.worst_max, 0.5);
  EXPECT_DOUBLE_EQ(own.loss.mean_max, retrieval.loss.mean_max);
}

TEST(Plan, TheHighestRateNeedsANumberOfGpus) {
  EXPECT_THAT(error_of(std::string("  gpus: [l40s]\n  maximize: rate\n") + kSlo), HasSubstr("num_gpus"));
  EXPECT_EQ(parsed(std::string("  gpus: [l40s]\n  maximize: rate\n  num_gpus: 4\n") + kSlo).goal, Goal::rate);
}

TEST(Plan, TooManyCandidatesAreRefusedBeforeAnyIsJudged) {
  std::string limits;
  for (int i = 1; i <= 150; ++i) limits += (i > 1 ? ", " : "") + std::to_string(i);
  // 1 GPU type x 150 ranks x 150 limits = 22,500 > 20,000.
  EXPECT_THAT(
      error_of("  gpus: [l40s]\n  tensor_parallel: [" + limits + "]\n  max_num_seqs: [" + limits + "]\n" + kSlo),
      HasSubstr("22500 candidates"));
}

}  // namespace
}  // namespace kvtide::planning

#include "experiment/machine_evaluation.h"

#include <gtest/gtest.h>

#include "experiment/experiment.h"
#include "experiment/run_evaluator.h"

namespace kvtide::experiment {
namespace {

std::map<std::string, double> numbers(const std::string& keys) {
  const Experiment experiment = parse_experiment(
      "name: n\nmodel: llama-3.1-8b\ngpu: h100-sxm\ntrace: {synthetic: {kind: uniform, tokens: 256}}\n" + keys,
      "e.yaml", "", {});
  RunEvaluator evaluator;
  return evaluator.evaluate(experiment.runs.front()).numbers;
}

// 1,024 tokens, one sequence: weights of 16 GB against 128 MiB of cache; attention is far from half of a step.
TEST(MachineEvaluation, WithoutMemoryNothingIsSaidOfHowManyFit) {
  const auto timed = numbers("context_tokens: 1024\nbatch: 1\nmeasure: [time]\n");
  EXPECT_EQ(timed.count("max_sequences_full"), 0U);
  EXPECT_EQ(timed.at("kv_bound"), 0);
  const auto both = numbers("context_tokens: 1024\nbatch: 1\nmeasure: [memory, time]\n");
  EXPECT_GT(both.at("max_sequences_full"), 2);
  EXPECT_EQ(both.at("kv_bound"), 0);
}

// 12 sequences of 32,768 tokens fit (README): of 8 in a batch no second batch does.
TEST(MachineEvaluation, ABatchThatDoesNotFitTwiceIsBoundByTheCache) {
  EXPECT_EQ(numbers("context_tokens: 32768\nbatch: 8\nmeasure: [memory, time]\n").at("kv_bound"), 1);
}

}  // namespace
}  // namespace kvtide::experiment

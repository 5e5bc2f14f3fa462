#include <gtest/gtest.h>

#include "base/error.h"
#include "experiment/experiment.h"
#include "experiment/run_evaluator.h"
#include "experiment/serving_setting.h"

namespace kvtide::experiment {
namespace {

// Routing deals requests among the engines that take them: the prefill ones where there are any, and caches among those that decode.
// It decides the result, and so is part of the key, wherever one of both are several.
TEST(ServingText, NamesTheRoutingWhereverThereIsAChoiceOfEngines) {
  const auto differs = [](std::int64_t replicas, std::int64_t prefill_replicas) {
    ServingSetting dealt;
    dealt.replicas = replicas;
    dealt.prefill_replicas = prefill_replicas;
    ServingSetting loaded = dealt;
    loaded.routing = serving::Routing::least_loaded;
    return serving_text(dealt, "") != serving_text(loaded, "");
  };
  EXPECT_FALSE(differs(1, 0));
  EXPECT_FALSE(differs(1, 1));
  EXPECT_TRUE(differs(2, 0));
  EXPECT_TRUE(differs(1, 2));
  EXPECT_TRUE(differs(2, 2));
}

// A line of `kvtide calibrate` changes the run and its key, and needs a workload.
TEST(ServingCalibration, IsPartOfTheKeyAndNeedsAWorkload) {
  ServingSetting plain, own;
  own.calibration.step_gap = 0.001;
  EXPECT_NE(serving_text(plain, ""), serving_text(own, ""));
  const std::string head = "name: n\nmodel: smollm2-135m\ngpu: l4\ntrace: {synthetic: {kind: uniform, tokens: 256}}\n";
  const std::string line = "calibration: {step_factor: 1.1, step_gap: \"0.5 ms\", ttft_offset: \"20 ms\"}\n";
  const std::string traffic =
      "workload: {poisson: {rate: \"1 /s\", input_tokens: 64, output_tokens: 2, requests: 1}}\n";
  const Experiment experiment = parse_experiment(head + traffic + line, "e.yaml", "", {});
  const serving::Calibration read = experiment.runs.front().setting.serving->calibration;
  EXPECT_EQ(read, (serving::Calibration{.step_factor = 1.1, .step_gap = 0.0005, .ttft_offset = 0.02}));
  EXPECT_THROW((void)parse_experiment(head + line, "e.yaml", "", {}), InputError);
  EXPECT_THROW((void)parse_experiment(head + traffic + "calibration: {step_factor: 0.09}\n", "e.yaml", "", {}),
               InputError);
}

// One request of two tokens alone: a step for the prompt, one for the second token. Each is twice the modeled time and 3 ms; the client
// waits 50 ms more for the first token, and so for the last.
TEST(ServingCalibration, StretchesEveryStepAndDelaysWhatTheClientSees) {
  const auto run = [](const std::string& calibration) {
    const Experiment experiment = parse_experiment(
        "name: n\nmodel: smollm2-135m\ngpu: l4\nfidelity: roofline\ntrace: {synthetic: {kind: uniform, tokens: 256}}\n"
        "measure: [serving]\nworkload: {poisson: {rate: \"1 /s\", input_tokens: 64, output_tokens: 2, requests: 1}}\n" +
            calibration,
        "e.yaml", "", {});
    RunEvaluator evaluator;
    return evaluator.evaluate(experiment.runs.front()).numbers;
  };
  const auto modeled = run("");
  const auto own = run("calibration: {step_factor: 2, step_gap: \"3 ms\", ttft_offset: \"50 ms\"}\n");
  EXPECT_NEAR(own.at("ttft_mean_s"), 2 * modeled.at("ttft_mean_s") + 0.003 + 0.05, 1e-9);
  EXPECT_NEAR(own.at("tpot_mean_s"), 2 * modeled.at("tpot_mean_s") + 0.003, 1e-9);
  EXPECT_NEAR(own.at("latency_mean_s"), own.at("ttft_mean_s") + own.at("tpot_mean_s"), 1e-9);
}

}  // namespace
}  // namespace kvtide::experiment

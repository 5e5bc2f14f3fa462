#include "planning/server_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace kvtide::planning {
namespace {

using testing::HasSubstr;

std::string stats(double prompt, double generation, int running, int waiting, double usage) {
  return "INFO 11-29 10:00:00 [loggers.py:117] Engine 000: Avg prompt throughput: " + std::to_string(prompt) +
         " tokens/s, Avg generation throughput: " + std::to_string(generation) +
         " tokens/s, Running: " + std::to_string(running) + " reqs, Waiting: " + std::to_string(waiting) +
         " reqs, GPU KV cache usage: " + std::to_string(usage) + "%, Prefix cache hit rate: 0.0%\n";
}

const std::string kStart =
    "INFO vLLM API server version 0.19.0\nINFO args: {'model': 'meta-llama/Llama-3.1-8B-Instruct', "
    "'tensor_parallel_size': 2, 'max_num_seqs': 64}\nINFO GPU KV cache size: 160,000 tokens\n";

// 10 % of 160,000 tokens over 16 requests: 1,000 each; 16 / 512 s a step.
TEST(ServerLog, AStepFollowsFromRequestsAndRate) {
  const ServerLog log = read_server_log(kStart + stats(0, 512, 16, 0, 10) + stats(0, 512, 16, 0, 10), "log");
  EXPECT_EQ(log.model, "llama-3.1-8b");
  EXPECT_EQ(log.tensor_parallel, 2);
  EXPECT_EQ(log.max_num_seqs, 64);
  ASSERT_EQ(log.decodes.size(), 1U);  // the first line has none before it
  EXPECT_EQ(log.decodes[0].decode_sequences, 16);
  EXPECT_NEAR(log.decodes[0].decode_context, 1000, 1e-6);
  EXPECT_NEAR(log.decodes[0].mean_tpot, 0.03125, 1e-12);
  EXPECT_TRUE(std::isnan(log.decodes[0].mean_ttft));
}

TEST(ServerLog, TheStartUpTellsTheCachesType) {
  const std::string lines = stats(0, 512, 16, 0, 10) + stats(0, 512, 16, 0, 10);
  EXPECT_EQ(read_server_log(kStart + lines, "log").compression, "none");
  std::string quantized = kStart;
  quantized.insert(quantized.find("'max_num_seqs'"), "'kv_cache_dtype': 'fp8', ");
  EXPECT_EQ(read_server_log(quantized + lines, "log").compression, "{preset: fp8}");
}

TEST(ServerLog, TheStartUpTellsWhatItsWeightsAreStoredIn) {
  const std::string lines = stats(0, 512, 16, 0, 10) + stats(0, 512, 16, 0, 10);
  const auto with = [&](const std::string& quantization) {
    std::string start = kStart;
    if (!quantization.empty()) start.insert(start.find("'max_num_seqs'"), "'quantization': '" + quantization + "', ");
    return read_server_log(start + lines, "log");
  };
  EXPECT_EQ(with("").weights, std::nullopt);
  EXPECT_EQ(with("fp8").weights, "fp8");
  EXPECT_EQ(with("awq_marlin").weights, "w4a16");
  EXPECT_EQ(with("bitsandbytes").weights, std::nullopt);
  EXPECT_EQ(with("bitsandbytes").unknown_weights, "bitsandbytes");
}

TEST(ServerLog, StepsWithPromptsOrQueuesOrChangesAreLeftOut) {
  const std::string busy = stats(100, 512, 16, 0, 10) + stats(0, 512, 16, 3, 10) + stats(0, 500, 15, 0, 10);
  try {
    (void)read_server_log(kStart + busy, "engine.log");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("engine.log: no line tells"));
  }
}

TEST(ServerLog, WithoutItsPoolTheContextIsNotKnown) {
  try {
    (void)read_server_log(stats(0, 512, 16, 0, 10) + stats(0, 512, 16, 0, 10), "engine.log");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("GPU KV cache size"));
  }
}

// 12,000 tokens of 12 requests at 480 tokens/s: 1,000 each, 25 ms.
TEST(ServerLog, SglangNamesTheTokens) {
  const std::string line =
      "[2026-11-29 10:00:00] Decode batch. #running-req: 12, #token: 12000, token usage: 0.05, cuda graph: True, gen "
      "throughput (token/s): 480.00, #queue-req: 0\n";
  ASSERT_TRUE(is_server_log(line));
  const ServerLog log = read_server_log(line, "log");
  EXPECT_EQ(log.compression, std::nullopt);  // no start-up: not said
  ASSERT_EQ(log.decodes.size(), 1U);
  EXPECT_NEAR(log.decodes[0].mean_tpot, 0.025, 1e-12);
  EXPECT_NEAR(log.decodes[0].decode_context, 1000, 1e-9);
}

TEST(ServerLog, ABenchmarksResultIsNone) {
  EXPECT_FALSE(is_server_log("Serving Benchmark Result\nMean TPOT (ms): 3\n"));
}

}  // namespace
}  // namespace kvtide::planning

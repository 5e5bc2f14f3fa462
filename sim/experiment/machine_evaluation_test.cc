#include "experiment/machine_evaluation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "experiment/experiment.h"
#include "experiment/run_evaluator.h"

namespace kvtide::experiment {
namespace {

std::map<std::string, double> numbers(const std::string& keys, const std::string& model = "llama-3.1-8b") {
  const Experiment experiment = parse_experiment(
      "name: n\nmodel: " + model + "\ngpu: h100-sxm\ntrace: {synthetic: {kind: uniform, tokens: 256}}\n" + keys,
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

// 4,096 tokens of Llama-3.1-8B are 512 MiB in 32 layers, 8 sequences 4 GiB. 31 stages: one holds 2 layers, 4 GiB / 16 = 256 MiB; 32 stages
// 1 layer each, 128 MiB; 3 stages 11, 11 and 10: 4 GiB x 11 / 32. Weights alike, 8.03 billion parameters of 2 B: 2 of 32 layers.
TEST(MachineEvaluation, TheLargestOfUnevenPipelineStagesDecides) {
  const auto on = [](int stages) {
    return numbers("context_tokens: 4096\nbatch: 8\nmeasure: [memory]\npipeline_parallel: " + std::to_string(stages) +
                   "\n");
  };
  constexpr double kGiB = 1 << 30;
  EXPECT_DOUBLE_EQ(on(31).at("kv_batch_bytes"), kGiB / 4);
  EXPECT_DOUBLE_EQ(on(32).at("kv_batch_bytes"), kGiB / 8);
  EXPECT_DOUBLE_EQ(on(3).at("kv_batch_bytes"), 4 * kGiB * 11 / 32);
  EXPECT_NEAR(on(31).at("weight_bytes_per_gpu"), 8.03e9 * 2 / 16, 1e7);
  EXPECT_EQ(on(31).at("weight_bytes_per_gpu"), on(16).at("weight_bytes_per_gpu"));
}

// Both halves of a run that serves have one memory: 131,072 B a token of Llama-3.1-8B, in pages of 16 of which one is the null page. A
// twentieth of the GPU more for the engine is a twentieth more for the cache.
TEST(MachineEvaluation, ARunThatServesHasTheMemoryOfItsEngine) {
  const auto with = [](const std::string& share) {
    return numbers(
        "context_tokens: 4096\nfidelity: roofline\nmeasure: [memory, serving]\n"
        "workload: {closed_loop: {users: 2, input_tokens: 64, output_tokens: 8, requests: 2}}\n"
        "engine: {kind: vllm, gpu_memory_utilization: " +
        share + "}\n");
  };
  const auto less = with("0.9"), more = with("0.95");
  const double pages = less.at("kv_capacity_bytes") / (16 * 131072.0);
  EXPECT_GE(pages, less.at("serving_kv_tokens") / 16);
  EXPECT_LE(pages, less.at("serving_kv_tokens") / 16 + 2);
  EXPECT_NEAR(more.at("kv_capacity_bytes") - less.at("kv_capacity_bytes"), 0.05 * less.at("gpu_memory_bytes"), 1);
  EXPECT_EQ(with("0.9, num_blocks: 1000").at("kv_capacity_bytes"), 999 * 16 * 131072.0);
}

// In every layer KV heads 0..3 of 8 keep all, 4..7 only 64 + 256 tokens. Engines divide heads in order: the first half of the
// ranks has whole
// heads alone, is as full as without compression, and the others wait for it at every all-reduce. On one GPU half is saved,
// less the pages of 320.
TEST(MachineEvaluation, ARankOfWholeHeadsGainsNothing) {
  const auto file = std::filesystem::temp_directory_path() / fmt::format("kvtide-whole-heads-{}.tsv", ::getpid());
  {
    std::ofstream table(file);
    for (int layer = 0; layer < 32; ++layer) table << "0.9\t0.9\t0.9\t0.9\t0.1\t0.1\t0.1\t0.1\n";
  }
  const auto on = [&](int ranks) {
    return numbers(
        "context_tokens: 131072\nbatch: 8\nmeasure: [memory, time]\nfidelity: roofline\n"
        "compression: {preset: duoattention, share: 0.5, heads_file: " +
        file.string() + "}\ntensor_parallel: " + std::to_string(ranks) + "\n");
  };
  const auto alone = on(1), two = on(2), eight = on(8);
  std::filesystem::remove(file);
  EXPECT_NEAR(alone.at("kv_batch_bytes"), 8 * 4096.0 * 32 * (131072 + 320) / 2, 1);
  EXPECT_GT(alone.at("decode_speedup"), 1.5);
  for (const auto& [ranks, got] : {std::pair{2, two}, {8, eight}}) {
    EXPECT_EQ(got.at("max_sequences"), got.at("max_sequences_full")) << ranks;
    EXPECT_EQ(got.at("max_context_tokens"), got.at("max_context_tokens_full")) << ranks;
    EXPECT_DOUBLE_EQ(got.at("kv_batch_bytes"), 8 * 4096.0 * 32 * 131072 / ranks) << ranks;
    EXPECT_LE(got.at("decode_speedup"), 1) << ranks;
    EXPECT_GT(got.at("decode_speedup"), 0.98) << ranks;  // a kernel of each layer sees to the new token
  }
}

// Blocks of 2,048 fill at 32,768 and 34,816, and 1,024 steps are simulated: between 33,792 and 34,816 none of them fills one.
// Whatever is asked for between the two fillings has the same period behind it.
TEST(MachineEvaluation, ABlockLongerThanTheSimulatedStepsIsCompressedOnceAPeriod) {
  const auto at = [](int context, int block) {
    return numbers("context_tokens: " + std::to_string(context) +
                   "\nbatch: 1\nmeasure: [time]\nfidelity: roofline\ncompression: {block_size: " +
                   std::to_string(block) + ", protect: {sinks: 0, window: 0}, stages: [{evict: {scorer: knorm}}]}\n");
  };
  const auto soon = at(33000, 2048);
  EXPECT_GT(soon.at("compress_us_per_block"), 0);
  for (const int context : {32768, 34000, 34815}) {
    EXPECT_EQ(at(context, 2048).at("compress_us_per_block"), soon.at("compress_us_per_block")) << context;
    EXPECT_EQ(at(context, 2048).at("decode_speedup"), soon.at("decode_speedup")) << context;
  }
  EXPECT_GT(at(34816, 2048).at("decode_step_us"), soon.at("decode_step_us"));  // a block more of kept entries
  // 409 is the longest block of which two and a half fit into 1,024 steps, 1,024 the longest of which one does.
  EXPECT_GT(at(2000, 1024).at("compress_us_per_block"), 0);
  EXPECT_EQ(at(2000, 2048).at("compress_us_per_block"), 0);  // none has filled
}

// The steps of a period are of shorter contexts: 16 sequences of 2,048 tokens read 4 GiB, of 1,537, the mean of the last 1,024, 3. What
// keeps all is no quicker for it, in blocks of one token (only the newest step counts), of 1,024 and of 4,096 (never filled).
TEST(MachineEvaluation, WhatKeepsAllIsAsQuickAsTheFullCacheWhateverTheBlocks) {
  const auto at = [](int block, const std::string& rest) {
    return numbers("context_tokens: 2048\nbatch: 16\nmeasure: [time]\nfidelity: roofline\ncompression: {block_size: " +
                   std::to_string(block) + rest + "}\n");
  };
  const double full = at(1, "").at("decode_step_us_full");
  for (const int block : {1, 100, 1024, 4096}) {
    EXPECT_EQ(at(block, "").at("decode_speedup"), 1) << block;
    EXPECT_EQ(at(block, "").at("decode_step_us"), full) << block;
  }
  const auto kept = at(1024, ", protect: {sinks: 0, window: 0}, stages: [{evict: {scorer: newest, keep_ratio: 1}}]");
  EXPECT_GT(kept.at("compress_us_per_block"), 0);
  EXPECT_LT(kept.at("decode_speedup"), 1);  // by the compression's own kernel
  EXPECT_GT(kept.at("decode_speedup"), 0.99);
}

// Nothing comes before the first token: its own step is the only one there is.
TEST(MachineEvaluation, AContextOfOneTokenHasADecodeStep) {
  for (const std::string stages : {"[]", "[{evict: {scorer: newest}}]", "[{quantize: {format: int4, residual: 4}}]"}) {
    const auto one = numbers(
        "context_tokens: 1\nbatch: 2\nmeasure: [memory, time]\nfidelity: roofline\n"
        "compression: {block_size: 16, stages: " +
        stages + "}\n");
    EXPECT_EQ(one.at("decode_speedup"), 1) << stages;
    EXPECT_EQ(one.at("decode_step_us"), one.at("decode_step_us_full")) << stages;
    EXPECT_EQ(one.at("collective_us"), 0) << stages;
  }
}

// 12 sequences of 32,768 tokens fit (README): of 8 in a batch no second batch does.
TEST(MachineEvaluation, ABatchThatDoesNotFitTwiceIsBoundByTheCache) {
  EXPECT_EQ(numbers("context_tokens: 32768\nbatch: 8\nmeasure: [memory, time]\n").at("kv_bound"), 1);
}

// What fits is timed as a run of that batch would be, compressed or not; of every token of the batch each of the two ranks has half.
TEST(MachineEvaluation, TheStepOfWhatFitsIsThatOfARunOfThatBatch) {
  const auto with_batch = [](double batch) {
    return numbers(fmt::format(
        "context_tokens: 32768\nbatch: {}\nmeasure: [memory, time]\nfidelity: roofline\ntensor_parallel: 2\n"
        "compression: {{block_size: 128, stages: [{{evict: {{scorer: knorm}}}}]}}\n",
        batch));
  };
  const auto few = with_batch(2);
  const double most = few.at("max_sequences"), most_full = few.at("max_sequences_full");
  EXPECT_GT(most, most_full);
  const auto filled = with_batch(most), filled_full = with_batch(most_full);
  EXPECT_EQ(few.at("max_sequences_step_us"), filled.at("decode_step_us"));
  EXPECT_EQ(few.at("max_sequences_step_us_full"), filled_full.at("decode_step_us_full"));
  EXPECT_EQ(filled.at("max_sequences_step_us"), filled.at("decode_step_us"));
  EXPECT_EQ(filled_full.at("max_sequences_step_us_full"), filled_full.at("decode_step_us_full"));
  EXPECT_DOUBLE_EQ(few.at("max_sequences_tokens_per_s_per_gpu"), most / 2 * 1e6 / filled.at("decode_step_us"));
  EXPECT_DOUBLE_EQ(few.at("max_sequences_tokens_per_s_per_gpu_full"),
                   most_full / 2 * 1e6 / filled_full.at("decode_step_us_full"));
}

// 12 sequences of 4 GiB and 15 GB of weights (16.06 less the embedding's 1.05, of which a step reads 12 rows) are 66.5 GB: 19.9 ms at the
// pins' 3.35 TB/s, which no read reaches.
TEST(MachineEvaluation, AFullMemoryIsReadOnceAStep) {
  const auto full = numbers("context_tokens: 32768\nbatch: 1\nmeasure: [memory, time]\n");
  ASSERT_EQ(full.at("max_sequences_full"), 12);
  EXPECT_GT(full.at("max_sequences_step_us_full"), 19.9e3);
  EXPECT_LT(full.at("max_sequences_step_us_full"), 1.3 * 19.9e3);
}

// 141 GB of weights on 80 GiB: no sequence fits, none is timed.
TEST(MachineEvaluation, WhereNothingFitsNoStepIsTimed) {
  const auto none = numbers("context_tokens: 1024\nmeasure: [memory, time]\nfidelity: roofline\n", "llama-3.1-70b");
  EXPECT_EQ(none.at("max_sequences"), 0);
  EXPECT_EQ(none.count("max_sequences_step_us"), 0U);
  EXPECT_EQ(numbers("context_tokens: 1024\nbatch: 1\nmeasure: [time]\n").count("max_sequences_step_us"), 0U);
}

}  // namespace
}  // namespace kvtide::experiment

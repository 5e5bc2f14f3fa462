#include "experiment/schedule_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "experiment/run_evaluator.h"
#include "experiment/served_decode.h"

namespace kvtide::experiment {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kToken = 131072;  // B: Llama-3.1-8B in fp16

class Schedule : public testing::Test {
 protected:
  void SetUp() override { setenv("KVTIDE_DATA_DIR", KVTIDE_SOURCE_DIR, 1); }
  void TearDown() override { unsetenv("KVTIDE_DATA_DIR"); }

  /// 1,024 tokens of which the newest half stays, token by token, nothing protected; `more` beside the stages.
  static Experiment newest_half(const std::string& more, const std::string& measure = "[memory]") {
    return experiment(
        "{block_size: 1, protect: {sinks: 0, window: 0}, stages: [{evict: {scorer: newest, "
        "granularity: token, keep_ratio: 0.5}}]" +
            more + "}",
        measure);
  }
  static Experiment experiment(const std::string& compression, const std::string& measure) {
    return parse_experiment(
        "name: n\nmodel: llama-3.1-8b\ngpu: h100-sxm\ntrace: {synthetic: {kind: uniform, tokens: 256}}\n"
        "context_tokens: 1024\nbatch: 1\ncompression: " +
            compression + "\nmeasure: " + measure + "\n",
        "e.yaml", "", {});
  }
  static RunResult evaluated(const Experiment& experiment) {
    RunEvaluator evaluator;
    return evaluator.evaluate(experiment.runs.front());
  }
  static std::string error_of(const std::string& compression, const std::string& more = "[memory]") {
    try {
      (void)experiment(compression, more);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }
};

// Chunks of 256: before the last one 768 positions have left 384, and it adds 256. Chunks of 512: 256 + 512. One chunk:
// everything. A whole prompt goes layer by layer: 512 kept everywhere and 512 more in one of 32 layers.
TEST_F(Schedule, APromptInChunksPeaksAtWhatWasKeptAndOneChunk) {
  const auto peak = [](const std::string& more) {
    const RunResult result = evaluated(newest_half(more));
    EXPECT_EQ(result.numbers.at("kv_bytes"), 512 * kToken) << more;
    return result.numbers.at("peak_bytes") / kToken;
  };
  EXPECT_EQ(peak(", prefill_chunk: 256"), 384 + 256);
  EXPECT_EQ(peak(", prefill_chunk: 512"), 256 + 512);
  EXPECT_EQ(peak(", prefill_chunk: 1024"), 1024);
  EXPECT_EQ(peak(", prefill_chunk: 5000"), 1024);
  EXPECT_EQ(peak(""), 512 + 512.0 / 32);
  // A short last chunk: 1,024 = 3 * 300 + 124; before the third 600 left 300, before the last 900 left 450.
  // In pages of 16: 304 + 304 tokens.
  EXPECT_EQ(peak(", prefill_chunk: 300"), 304 + 304);
}

// Never more with chunks that divide larger ones.
TEST_F(Schedule, SmallerChunksNeverPeakHigher) {
  double above = 1e300;
  for (const int chunk : {1024, 512, 256, 128, 64, 32, 16}) {
    const double peak = evaluated(newest_half(", prefill_chunk: " + std::to_string(chunk))).numbers.at("peak_bytes");
    EXPECT_LE(peak, above) << chunk;
    above = peak;
  }
}

// 257..320 entries in pages of 16: 272, 288, 304 and 320 tokens, 16 steps each.
TEST_F(Schedule, ADecodeTargetBoundsMemoryWhateverTheContext) {
  const RunResult result = evaluated(newest_half(", decode: {target: 256, every: 64}"));
  EXPECT_EQ(result.numbers.at("kv_bytes"), 320 * kToken);
  EXPECT_EQ(result.numbers.at("peak_bytes"), 320 * kToken);
  EXPECT_EQ(result.numbers.at("decode_bytes_mean"), 296 * kToken);
  EXPECT_EQ(result.numbers.at("max_context_tokens"), 131072);  // the model's limit
  EXPECT_THAT(result.warnings, ElementsAre(HasSubstr("256 of 1024")));
}

TEST_F(Schedule, RecallIsPartOfTheStep) {
  const auto numbers = [](const std::string& more) {
    return evaluated(experiment("{preset: arkvale" + more + "}", "[time]")).numbers;
  };
  auto without = numbers("");
  auto with = numbers(", recall: 0.1");
  EXPECT_EQ(without.count("recall_us"), 0U);
  // At least the latency of 32 transfers, one a layer.
  EXPECT_GT(with.at("recall_us"), 32 * 2.0);
  EXPECT_NEAR(with.at("decode_step_us") - without.at("decode_step_us"), with.at("recall_us"),
              0.1 * with.at("recall_us"));  // the last period against all steps
  EXPECT_EQ(with.at("decode_step_us_full"), without.at("decode_step_us_full"));
}

// 2 heads that read 100 pages of 4,096 B of K and of V: 1,638,400 B, 400 pages; 5 % of them.
TEST_F(Schedule, RecallBringsWholePages) {
  gpu::DecodeAttentionWork attention;
  attention.tasks = {{.streams = {{409600, 4096}, {409600, 4096}}, .count = 2}};
  EXPECT_EQ(recall_work(attention, 50'000), (gpu::HostTransferWork{.bytes = 81920, .num_pieces = 20}));
}

TEST_F(Schedule, SharedLayersHaveNoLossToShow) {
  const RunResult result = evaluated(experiment("{preset: cla-2}", "[memory, loss]"));
  EXPECT_EQ(result.numbers.at("kv_bytes"), 512 * kToken);
  EXPECT_EQ(result.numbers.at("kv_bytes_full"), 1024 * kToken);
  EXPECT_EQ(result.numbers.at("peak_bytes"), 512 * kToken);
  EXPECT_EQ(result.numbers.count("loss_mean"), 0U);
  EXPECT_THAT(result.warnings, ElementsAre(HasSubstr("not measurable")));
}

TEST_F(Schedule, AProbeThatNobodyAsksIsTold) {
  const auto warned = [](const std::string& measure) {
    return evaluated(newest_half("", measure + "\nprobe: {kind: factual, step: 64}")).warnings;
  };
  EXPECT_THAT(warned("[loss]"), ElementsAre(HasSubstr("leaves position_scan out")));
  EXPECT_THAT(warned("[loss, position_scan]"), ::testing::IsEmpty());
}

TEST_F(Schedule, TheTextHoldsWhatDiffers) {
  EXPECT_EQ(schedule_text(newest_half("").runs[0].setting), "");
  EXPECT_EQ(schedule_text(newest_half(", prefill_chunk: 8, decode: {target: 3, every: 2}").runs[0].setting),
            ", prefill_chunk: 8, decode: {target: 3, every: 2}");
  EXPECT_EQ(schedule_text(experiment("{preset: minicache}", "[memory]").runs[0].setting),
            ", share_layers: {group: 2, from: 0.5, window: 0, merges: true, retained: 0.05}");
  EXPECT_NE(newest_half("").runs[0].key, newest_half(", prefill_chunk: 8").runs[0].key);
}

TEST_F(Schedule, ContradictionsAreRefused) {
  EXPECT_THAT(error_of("{decode: {target: 8}}"), HasSubstr("one evict stage"));
  EXPECT_THAT(error_of("{preset: quest, decode: {target: 8}}"), HasSubstr("rest: unread"));
  EXPECT_THAT(error_of("{preset: duoattention, decode: {target: 8}}"), HasSubstr("threshold"));
  EXPECT_THAT(error_of("{preset: snapkv, recall: 0.1}"), HasSubstr("rest: host"));
  EXPECT_THAT(error_of("{preset: snapkv, share_layers: {merges: true}}"), HasSubstr("quantize stages alone"));
  EXPECT_THAT(error_of("{preset: cla-2, share_layers: {retained: 0.1}}"), HasSubstr("merges: true"));
  EXPECT_THAT(error_of("{preset: cla-2}", "[memory]\nworkload: {rate: 1}"), HasSubstr("compression.share_layers"));
  EXPECT_EQ(error_of("{preset: snapkv, decode: {target: 8, every: 1}}"), "");
}

// A share of less than a millionth would be 0 and switch off what it was written for.
TEST_F(Schedule, SharesHaveSixDecimalsAtMost) {
  EXPECT_EQ(error_of("{preset: infllm, recall: 0.000001}"), "");
  EXPECT_EQ(error_of("{preset: infllm, recall: 0}"), "");
  EXPECT_THAT(error_of("{preset: infllm, recall: 0.0000004}"), HasSubstr("six decimals"));
  EXPECT_THAT(error_of("{preset: minicache, share_layers: {merges: true, retained: 0.0500001}}"),
              HasSubstr("six decimals"));
}

}  // namespace
}  // namespace kvtide::experiment

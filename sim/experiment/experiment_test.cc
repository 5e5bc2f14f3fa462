#include "experiment/experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "model/model.h"

namespace kvtide::experiment {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class ExperimentFile : public testing::Test {
 protected:
  void SetUp() override {
    setenv("KVTIDE_DATA_DIR", KVTIDE_SOURCE_DIR, 1);
    folder_ = std::filesystem::path(testing::TempDir()) / ("experiment_test_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "t.h5") << "stands for a trace: the reader looks at its bytes only";
  }
  void TearDown() override {
    unsetenv("KVTIDE_DATA_DIR");
    std::filesystem::remove_all(folder_);
  }

  Experiment parse(const std::string& more, const Overrides& overrides = {}) const {
    return parse_experiment("name: n\nmodel: llama-3.1-8b\ngpu: h100-sxm\ntrace: t.h5\n" + more, "e.yaml",
                            folder_.string(), overrides);
  }
  std::string error_of(const std::string& more, const Overrides& overrides = {}) const {
    try {
      (void)parse(more, overrides);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path folder_;
};

// The shipped qwen2.5-7b has 28 layers.
TEST_F(ExperimentFile, ACheckpointBesideItIsNotTheShippedModelOfItsName) {
  std::filesystem::create_directories(folder_ / "mine" / "qwen2.5-7b");
  std::ofstream(folder_ / "mine" / "qwen2.5-7b" / "config.json")
      << R"({"model_type": "llama", "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2,
             "head_dim": 128, "hidden_size": 1024, "intermediate_size": 256, "vocab_size": 100,
             "max_position_embeddings": 131072})";
  const auto model_of = [this](const std::string& name) {
    const std::string text = "name: n\nmodel: " + name + "\ngpu: h100-sxm\ntrace: t.h5\n";
    return load_model(parse_experiment(text, "e.yaml", folder_.string()).runs.front().setting.model);
  };
  EXPECT_EQ(model_of("mine/qwen2.5-7b").num_layers, 4);
  EXPECT_EQ(model_of("yours/qwen2.5-7b").num_layers, 28);
  EXPECT_THROW((void)model_of("mine/qwen2.5-14b"), InputError);
}

// The values printed in the documentation of the file.
TEST_F(ExperimentFile, EveryKeyThatIsNotGivenTakesItsDocumentedValue) {
  const Experiment experiment = parse("");
  ASSERT_EQ(experiment.runs.size(), 1u);
  const Setting& setting = experiment.runs[0].setting;
  EXPECT_EQ(setting.context_tokens, 32768);
  EXPECT_EQ(setting.batch, 8);
  EXPECT_EQ(setting.page_size, 16);
  EXPECT_EQ(setting.layout, kv::CacheLayout::per_head);
  EXPECT_EQ(setting.compression, kv::Compression{});
  EXPECT_EQ(setting.compression.block_size, 128);
  EXPECT_EQ(setting.compression.sinks, 4);
  EXPECT_EQ(setting.compression.window, 64);
  EXPECT_TRUE(setting.compression.stages.empty());
  EXPECT_EQ(setting.loss, LossSetting{});
  EXPECT_EQ(setting.loss.score_window, 64);
  EXPECT_EQ(setting.loss.span, 8);
  EXPECT_EQ(setting.measure, MeasureSetting{});
  EXPECT_FALSE(setting.measure.detail);
  EXPECT_EQ(setting.seed, 1u);
}

TEST_F(ExperimentFile, EveryKeyIsReadIntoItsPlace) {
  const Experiment experiment = parse(R"(
context_tokens: 1000
batch: 2
cache: {page_size: 32, layout: shared}
compression:
  block_size: 96
  partition: {kind: fixed, offset: 5}
  protect: {sinks: 1, window: 32, anchors: none}
  stages:
    - evict: {scorer: attention_sum, granularity: token, keep_ratio: 0.25, heads: shared}
    - quantize: {format: int8, group: 64, k_axis: token, v_axis: channel, residual: 96}
loss: {queries: aware, score_window: 16, measure_queries: [100, 120], metric: output_loss, heads: max, span: 4}
measure: [memory, detail]
seed: 9
)");
  const Setting& setting = experiment.runs.at(0).setting;
  EXPECT_EQ(setting.layout, kv::CacheLayout::shared);
  EXPECT_EQ(setting.compression.grid_offset, 5);
  ASSERT_EQ(setting.compression.stages.size(), 2u);
  EXPECT_EQ(std::get<kv::Evict>(setting.compression.stages[0]),
            (kv::Evict{"attention_sum", kv::Granularity::token, 250000, kv::HeadScope::shared}));
  EXPECT_EQ(std::get<kv::Quantize>(setting.compression.stages[1]), (kv::Quantize{.k_format = "int8",
                                                                                 .v_format = "int8",
                                                                                 .group = 64,
                                                                                 .k_axis = kv::GroupAxis::token,
                                                                                 .v_axis = kv::GroupAxis::channel,
                                                                                 .residual = 96}));
  EXPECT_EQ(setting.loss.measure_queries, MeasureQueries::range);
  EXPECT_EQ(setting.loss.last_query, 120);
  EXPECT_EQ(setting.loss.metric, LossMetric::output_loss);
  EXPECT_TRUE(setting.measure.memory);
  EXPECT_TRUE(setting.measure.detail);
  EXPECT_FALSE(setting.measure.loss);
}

TEST_F(ExperimentFile, AllErrorsOfAFileComeTogetherWithTheirPlaces) {
  const std::string message =
      error_of("context_tokens: 0\nbatch: banana\nblock_size: 3\ncompression: {block_sise: 3}\n");
  EXPECT_THAT(message, HasSubstr("e.yaml:5:17: context_tokens: expected an integer in 1..16777216, got 0"));
  EXPECT_THAT(message, HasSubstr("e.yaml:6:8: batch: expected an integer"));
  EXPECT_THAT(message, HasSubstr("e.yaml:7:1: block_size: unknown key"));
  EXPECT_THAT(message, HasSubstr("compression.block_sise: unknown key; did you mean block_size?"));
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 3);
}

TEST_F(ExperimentFile, NameModelGpuAndTraceAreRequired) {
  try {
    (void)parse_experiment("batch: 1", "e.yaml", folder_.string());
    FAIL();
  } catch (const InputError& error) {
    for (const char* key : {"name", "model", "gpu", "trace"}) {
      EXPECT_THAT(error.what(), HasSubstr(std::string(key) + ": missing")) << key;
    }
  }
  EXPECT_THROW((void)parse_experiment("", "e.yaml", ""), InputError);
  EXPECT_THROW((void)parse_experiment("[1, 2]", "e.yaml", ""), InputError);
}

TEST_F(ExperimentFile, ModelThatCannotBeSimulatedSaysWhatItHas) {
  try {
    (void)parse_experiment("name: n\nmodel: minimax-text-01\ngpu: h100-sxm\ntrace: none.h5", "e.yaml",
                           folder_.string());
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("e.yaml:2:8: model: kvtide run cannot simulate minimax-text-01: it has "
                                        "weights of class minimax_text_01"));
  }
}

TEST_F(ExperimentFile, UnknownModelGpuAndTraceAreNamed) {
  try {
    (void)parse_experiment("name: n\nmodel: llama-3.1-8\ngpu: h100-sx\ntrace: none.h5", "e.yaml", folder_.string());
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("e.yaml:2:8: model: "));
    EXPECT_THAT(error.what(), HasSubstr("did you mean llama-3.1-8b?"));
    EXPECT_THAT(error.what(), HasSubstr("e.yaml:3:6: gpu: "));
    EXPECT_THAT(error.what(), HasSubstr("e.yaml:4:8: trace: \"none.h5\": no such file"));
  }
}

std::string evict(const std::string& keep_ratio) {
  return "compression: {stages: [{evict: {keep_ratio: " + keep_ratio + "}}]}";
}

// keep_ratio in (0, 1]; parts per million are exact, so a seventh decimal is refused rather than rounded.
TEST_F(ExperimentFile, KeepRatioIsExactAndItsRangeHoldsOnBothSides) {
  const auto parts = [&](const std::string& ratio) {
    return std::get<kv::Evict>(parse(evict(ratio)).runs.at(0).setting.compression.stages.at(0)).keep;
  };
  EXPECT_EQ(parts("0.1"), 100000);
  EXPECT_EQ(parts("0.3"), 300000);
  EXPECT_EQ(parts("1"), 1000000);
  EXPECT_EQ(parts("0.000001"), 1);
  for (const char* wrong : {"0", "-0.5", "1.000001", "0.1234567", "0.0000001", ".nan", "\"0.5\"", "50%"}) {
    EXPECT_THAT(error_of(evict(wrong)), HasSubstr("keep_ratio: expected")) << wrong;
  }
}

TEST_F(ExperimentFile, BlockSizeRangeHoldsOnBothSides) {
  EXPECT_THAT(error_of("compression: {block_size: 0}"), HasSubstr("expected an integer in 1..65536, got 0"));
  EXPECT_EQ(error_of("compression: {block_size: 1}"), "");
  EXPECT_EQ(error_of("compression: {block_size: 65536}"), "");
  EXPECT_THAT(error_of("compression: {block_size: 65537}"), HasSubstr("got 65537"));
}

TEST_F(ExperimentFile, GridOffsetLiesInsideOneBlock) {
  EXPECT_EQ(error_of("compression: {block_size: 64, partition: {kind: fixed, offset: 63}}"), "");
  EXPECT_THAT(error_of("compression: {block_size: 64, partition: {kind: fixed, offset: 64}}"),
              HasSubstr("in 0..63, got 64"));
  EXPECT_THAT(error_of("compression: {partition: {kind: random_offset, offset: 3}}"), HasSubstr("offset: unknown key"));
}

TEST_F(ExperimentFile, BlockLargerThanTheContextIsAWarningNotAnError) {
  EXPECT_THAT(parse("context_tokens: 128\ncompression: {block_size: 129}").warnings,
              ElementsAre(HasSubstr("one protected block")));
  EXPECT_TRUE(parse("context_tokens: 128\ncompression: {block_size: 128}").warnings.empty());
}

// Learned positions of GPT-2; 40 of the 48 layers of Gemma 3 have a window.
TEST_F(ExperimentFile, WhatAModelIsNotServedLikeIsAWarning) {
  const auto warned = [this](const std::string& model, const std::string& more) {
    Overrides overrides;
    overrides.sets = {{"model", model}};
    return parse(more, overrides).warnings;
  };
  EXPECT_TRUE(warned("gpt-2-xl", "context_tokens: 1024").empty());
  EXPECT_THAT(warned("gpt-2-xl", "context_tokens: 1025"),
              ElementsAre("context_tokens 1025 is more than the 1024 positions of gpt-2-xl"));
  EXPECT_TRUE(warned("gemma-3-12b", "compression: {stages: [{evict: {scorer: newest}}]}").empty());
  EXPECT_TRUE(warned("gemma-3-12b", "compression: {preset: fp8}").empty());
  EXPECT_THAT(warned("gemma-3-12b", "compression: {preset: kivi-int4}"),
              ElementsAre(HasSubstr("quantize leaves 40 of the 48 layers of gemma-3-12b at 16 bits")));
}

// DeepSeek-V3 is published in blocks of fp8, gpt-oss in mxfp4 with attention in 16 bits, Llama in 16 bits.
TEST_F(ExperimentFile, WeightsAreThePublishedOnesUnlessSaid) {
  const auto stored = [this](const std::string& model, const std::string& more) {
    Overrides overrides;
    overrides.sets = {{"model", model}};
    return parse(more, overrides).runs.front().setting.weights;
  };
  EXPECT_EQ(stored("deepseek-v3", ""), (WeightStorage{.format = WeightFormat::fp8_block}));
  EXPECT_EQ(stored("deepseek-v3", "weights: bf16"), WeightStorage{});
  EXPECT_EQ(stored("gpt-oss-20b", "weights: published"),
            (WeightStorage{.format = WeightFormat::mxfp4, .keeps_attention = true}));
  EXPECT_EQ(stored("gpt-oss-20b", "weights: fp8"), (WeightStorage{.format = WeightFormat::fp8}));
  EXPECT_EQ(stored("llama-3.1-8b", ""), WeightStorage{});
  EXPECT_EQ(stored("llama-3.1-8b", "weights: mxfp4"), (WeightStorage{.format = WeightFormat::mxfp4}));
  EXPECT_THAT(error_of("weights: fp9"), HasSubstr("weights: expected one of published, bf16, fp8"));
}

// Results of earlier versions, whose weights all had 16 bits, stay what --resume finds; others are runs of their own.
TEST_F(ExperimentFile, WeightsOfOtherThanSixteenBitsMakeAnotherRun) {
  const auto key = [this](const std::string& more) { return parse(more).runs.front().key; };
  EXPECT_EQ(key("weights: bf16"), key(""));
  EXPECT_NE(key("weights: fp8"), key(""));
  EXPECT_NE(key("weights: fp8"), key("weights: w8a8"));
}

TEST_F(ExperimentFile, PlannedKindsAreRefusedWithWhatIsAvailable) {
  for (const char* planned : {"measure: [timeline]", "plan: {gpus: [h100-sxm]}"}) {
    EXPECT_THAT(error_of(planned), HasSubstr("not available yet")) << planned;
    EXPECT_THAT(error_of(planned), HasSubstr("available: ")) << planned;
  }
}

TEST_F(ExperimentFile, StagesAreMappingsWithOneKnownKey) {
  EXPECT_THAT(error_of("compression: {stages: [{evikt: {}}]}"), HasSubstr("did you mean evict?"));
  EXPECT_THAT(error_of("compression: {stages: [{evict: {}, pool: {}}]}"), HasSubstr("got 2 keys"));
  EXPECT_THAT(error_of("compression: {stages: [evict]}"), HasSubstr("expected a mapping"));
  EXPECT_THAT(error_of("compression: {stages: 3}"), HasSubstr("expected a list"));
  EXPECT_EQ(error_of("compression: {stages: [{evict: }]}"), "");  // all defaults
}

// A block of 128 rows of 128 channels has at most rank 128.
TEST_F(ExperimentFile, ContradictoryStagesAreErrorsAtTheirPlace) {
  EXPECT_THAT(error_of("compression: {stages: [{low_rank: {rank: 4096}}]}"), HasSubstr("compression.stages: "));
}

TEST_F(ExperimentFile, MeasureQueriesAreAWordOrAnAscendingPair) {
  EXPECT_THAT(error_of("loss: {measure_queries: [5, 4]}"), HasSubstr("first <= last"));
  EXPECT_THAT(error_of("loss: {measure_queries: [5]}"), HasSubstr("expected [first, last]"));
  EXPECT_THAT(error_of("loss: {measure_queries: answers}"), HasSubstr("did you mean answer?"));
  EXPECT_EQ(error_of("loss: {measure_queries: [5, 5]}"), "");
}

TEST_F(ExperimentFile, SweepIsCartesianWithTheLastAxisFastest) {
  const Experiment experiment = parse("sweep: {compression.block_size: [64, 128], batch: [1, 8, 16]}");
  ASSERT_EQ(experiment.runs.size(), 6u);
  EXPECT_EQ(experiment.runs[1].setting.compression.block_size, 64);
  EXPECT_EQ(experiment.runs[1].setting.batch, 8);
  EXPECT_EQ(experiment.runs[3].setting.compression.block_size, 128);
  EXPECT_EQ(experiment.runs[3].setting.batch, 1);
  EXPECT_EQ(experiment.axes[0].column, "compression.block_size");
  EXPECT_EQ(experiment.axes[0].type, AxisType::integer);
}

TEST_F(ExperimentFile, SweptMappingsAndListsTakeLabels) {
  const Experiment experiment = parse(R"(
sweep:
  compression.stages:
    - {label: half, value: [{evict: {keep_ratio: 0.5}}]}
    - []
  loss: [{span: 4}, {label: two, value: {span: 2}}]
)");
  ASSERT_EQ(experiment.runs.size(), 4u);
  EXPECT_THAT(experiment.axes[0].labels, ElementsAre("half", "[]"));
  EXPECT_THAT(experiment.axes[1].labels, ElementsAre("{span: 4}", "two"));
  EXPECT_EQ(experiment.runs[0].setting.compression.stages.size(), 1u);
  EXPECT_TRUE(experiment.runs[3].setting.compression.stages.empty());
  EXPECT_EQ(experiment.runs[3].setting.loss.span, 2);
  EXPECT_EQ(experiment.axes[0].type, AxisType::text);
}

TEST_F(ExperimentFile, ErrorInASweptValueNamesItsPlaceOnce) {
  const std::string message = error_of("sweep:\n  compression.block_size: [64, 0]\n  batch: [1, 2]\n");
  EXPECT_EQ(message, "e.yaml:6:32: compression.block_size: expected an integer in 1..65536, got 0");
}

TEST_F(ExperimentFile, SweepsThatCannotMeanAnythingAreRefused) {
  EXPECT_THAT(error_of("sweep: {batch: []}"), HasSubstr("at least one value"));
  EXPECT_THAT(error_of("sweep: {batch: 3}"), HasSubstr("expected a list"));
  EXPECT_THAT(error_of("sweep: {batch: [1, 1]}"), HasSubstr("already a value of this axis"));
  EXPECT_THAT(error_of("sweep: {compression: [none], compression.block_size: [1]}"),
              HasSubstr("overlaps the axis compression"));
  EXPECT_THAT(error_of("sweep: {name: [a]}"), HasSubstr("cannot be swept"));
  EXPECT_THAT(error_of("sweep: {compression.blocksize: [1]}"), HasSubstr("did you mean block_size?"));
  EXPECT_THAT(error_of("sweep: {batch.x: [1]}\nbatch: 3"), HasSubstr("nothing can lie below"));
}

// 317 * 317 = 100,489 > 100,000 >= 316 * 316 = 99,856: refused before anything is expanded.
TEST_F(ExperimentFile, TooManyRunsAreRefusedBeforeExpansion) {
  std::string list = "[1";
  for (int i = 2; i <= 317; ++i) list += ", " + std::to_string(i);
  list += "]";
  EXPECT_THAT(error_of("sweep: {batch: " + list + ", context_tokens: " + list + "}"),
              HasSubstr("expected at most 100000 runs, got 100489"));
}

TEST_F(ExperimentFile, SetOverridesTheFileAndPinsAnAxis) {
  EXPECT_EQ(parse("batch: 3", {.sets = {{"batch", "5"}}, .seed = {}}).runs.at(0).setting.batch, 5);
  const Experiment pinned = parse("sweep: {batch: [1, 2], seed: [1, 2]}", {.sets = {{"batch", "5"}}, .seed = 7});
  ASSERT_EQ(pinned.runs.size(), 1u);
  EXPECT_EQ(pinned.runs[0].setting.batch, 5);
  EXPECT_EQ(pinned.runs[0].setting.seed, 7u);
  EXPECT_THAT(error_of("sweep: {compression: [none]}", {.sets = {{"compression.block_size", "5"}}, .seed = {}}),
              HasSubstr("changes a part of this axis"));
  EXPECT_THAT(error_of("", {.sets = {{"bacth", "5"}}, .seed = {}}),
              HasSubstr("--set bacth: bacth: unknown key; did you mean batch?"));
}

TEST_F(ExperimentFile, RunKeyFollowsContentNotNamesOrdersOrPlaces) {
  const std::uint64_t key = parse("batch: 4\ncontext_tokens: 100").runs.at(0).key;
  EXPECT_EQ(parse("context_tokens: 100\nbatch: 4\nloss: {span: 8}").runs.at(0).key, key);
  EXPECT_EQ(parse("context_tokens: 100\nsweep: {batch: [2, 4]}").runs.at(1).key, key);
  EXPECT_NE(parse("batch: 4\ncontext_tokens: 101").runs.at(0).key, key);
  EXPECT_NE(parse("batch: 4\ncontext_tokens: 100\nseed: 2").runs.at(0).key, key);
  std::ofstream(folder_ / "copy.h5") << std::ifstream(folder_ / "t.h5").rdbuf();
  EXPECT_EQ(parse("batch: 4\ncontext_tokens: 100", {.sets = {{"trace", "copy.h5"}}, .seed = {}}).runs.at(0).key, key);
  std::ofstream(folder_ / "t.h5") << "another trace";
  EXPECT_NE(parse("batch: 4\ncontext_tokens: 100").runs.at(0).key, key);
}

TEST_F(ExperimentFile, RandomOffsetIsDrawnFromTheRunsOwnStream) {
  const std::string text =
      "compression: {block_size: 64, partition: {kind: random_offset}}\nsweep: {seed: [1, 2, 3, 4, 5, 6, 7, 8]}";
  const Experiment once = parse(text);
  const Experiment twice = parse(text);
  std::set<std::int64_t> offsets;
  for (std::size_t i = 0; i < once.runs.size(); ++i) {
    const std::int64_t offset = once.runs[i].setting.compression.grid_offset;
    EXPECT_EQ(offset, twice.runs[i].setting.compression.grid_offset);
    EXPECT_EQ(offset, static_cast<std::int64_t>(RandomStream(once.runs[i].seed, "grid_offset").below(64)));
    EXPECT_GE(offset, 0);
    EXPECT_LT(offset, 64);
    offsets.insert(offset);
  }
  EXPECT_GT(offsets.size(), 1u);  // eight equal draws of 64: 64^-7
}

TEST_F(ExperimentFile, SyntheticTracesNeedAKindAndTokens) {
  const auto with = [&](const std::string& trace) {
    return parse_experiment("name: n\nmodel: llama-3.1-8b\ngpu: h100-sxm\ntrace: " + trace, "e.yaml", folder_.string());
  };
  const TraceSource trace = with("{synthetic: {kind: needle, tokens: 4096, logit: 6}}").runs.at(0).setting.trace;
  EXPECT_EQ(trace.kind, TraceKind::synthetic);
  EXPECT_THAT(trace.parameters,
              ElementsAre(std::pair<std::string, double>("logit", 6), std::pair<std::string, double>("tokens", 4096)));
  EXPECT_THROW((void)with("{synthetic: {kind: needles, tokens: 4096}}"), InputError);
  EXPECT_THROW((void)with("{synthetic: {kind: needle}}"), InputError);
  EXPECT_THROW((void)with("{synthetik: {kind: needle, tokens: 4096}}"), InputError);
}

}  // namespace
}  // namespace kvtide::experiment

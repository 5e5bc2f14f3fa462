#include "experiment/evict_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "experiment/evict_text.h"
#include "experiment/experiment.h"
#include "hdf5/hdf5_file.h"

namespace kvtide::experiment {
namespace {

using ::testing::HasSubstr;

class EvictStage : public ::testing::Test {
 protected:
  EvictStage() : folder_(std::filesystem::path(::testing::TempDir()) / "evict_reader_test") {
    setenv("KVTIDE_DATA_DIR", KVTIDE_SOURCE_DIR, 1);
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "t.h5") << "a trace";
    std::ofstream(folder_ / "more.h5") << "its companion";
    std::ofstream(folder_ / "mine.h5") << "choices";
  }
  ~EvictStage() override {
    unsetenv("KVTIDE_DATA_DIR");
    std::filesystem::remove_all(folder_);
  }

  [[nodiscard]] Experiment parse(const std::string& evict, const std::string& trace = "t.h5") const {
    return parse_experiment("name: n\nmodel: llama-3.1-8b\ngpu: h100-sxm\ntrace: " + trace +
                                "\ncompression: {stages: [{evict: " + evict + "}]}\n",
                            "e.yaml", folder_.string(), {});
  }
  [[nodiscard]] kv::Evict stage(const std::string& evict) const {
    return std::get<kv::Evict>(parse(evict).runs.at(0).setting.compression.stages.at(0));
  }
  [[nodiscard]] std::string error_of(const std::string& evict) const {
    try {
      (void)parse(evict);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path folder_;
};

TEST_F(EvictStage, ParametersOfTheScorerStandBesideTheStagesKeys) {
  const kv::Evict read = stage(
      "{scorer: snapkv, window: 32, granularity: token, keep_ratio: 0.25, heads: adaptive, safeguard: 0.1, "
      "selection: quota, critical: {epsilon: 0.001, first_stage: 0.25}, threshold: 0.5}");
  EXPECT_EQ(read.parameters, (kv::ScorerParameters{{"kernel", 5}, {"window", 32}}));
  EXPECT_EQ(read.heads, kv::HeadScope::adaptive);
  EXPECT_EQ(read.safeguard, 100000);
  EXPECT_EQ(read.selection, kv::Selection::quota);
  ASSERT_TRUE(read.critical.has_value());
  EXPECT_EQ(read.critical->first_stage, 250000);
  EXPECT_EQ(read.threshold, 0.5);
  EXPECT_THAT(error_of("{scorer: knorm, window: 32}"), HasSubstr("window"));
  EXPECT_THAT(error_of("{scorer: snapkv, window: 0}"), HasSubstr("compression.stages[0].evict.window"));
  EXPECT_THAT(error_of("{scorer: snapkv, selection: quota}"), HasSubstr("granularity token"));
}

// What a stage prints reads back as the same stage.
TEST_F(EvictStage, TextReadsBack) {
  for (const std::string written :
       {"{scorer: attention_sum}", "{scorer: cap, tau: 2.5, granularity: token, selection: iterative}",
        "{scorer: knorm, heads: adaptive, granularity: token, critical: true}",
        "{scorer: streaming, sinks: 8, threshold: 1}", "{scorer: knorm, block_score: mean, heads: shared}",
        "{scorer: keydiff, granularity: token, selection: entropy_gated, low_entropy_kept: 2}"}) {
    const kv::Evict first = stage(written);
    const std::string text = evict_text(first);  // {evict: {...}}
    EXPECT_EQ(stage(text.substr(8, text.size() - 9)), first) << text;
  }
}

TEST_F(EvictStage, BudgetMovesBetweenLayers) {
  const Setting setting = parse("{keep_ratio: 0.5, budget: {pyramid: {beta: 10}}}").runs.at(0).setting;
  EXPECT_EQ(setting.layer_budget.kind, kv::LayerBudget::Kind::pyramid);
  EXPECT_EQ(setting.layer_budget.pyramid.beta, 10);
  EXPECT_THAT(compression_text(setting), HasSubstr("pyramid: {beta: 10, window: 64}"));
  EXPECT_EQ(parse("{budget: {layers: [1.0, 0.25]}}").runs.at(0).setting.layer_budget.table,
            (std::vector<kv::PartsPerMillion>{1'000'000, 250000}));
  EXPECT_EQ(parse("{budget: lazy}").runs.at(0).setting.layer_budget.kind, kv::LayerBudget::Kind::lazy);
  EXPECT_NE(parse("{budget: lazy}").runs.at(0).key, parse("{}").runs.at(0).key);
  EXPECT_THAT(error_of("{budget: {layers: []}}"), HasSubstr("1..4096 keep ratios"));
  EXPECT_THAT(error_of("{budget: sometimes}"), HasSubstr("uniform, pyramid, lazy"));
}

// Of files the content counts, not the place.
TEST_F(EvictStage, FileOfChoicesIsFoundBesideTheExperimentAndCountsByContent) {
  const Experiment first = parse("{scorer: file, kept: mine.h5, method: Mine}");
  EXPECT_EQ(std::get<kv::Evict>(first.runs.at(0).setting.compression.stages.at(0)).kept_file,
            (folder_ / "mine.h5").string());
  std::filesystem::copy_file(folder_ / "mine.h5", folder_ / "copy.h5");
  EXPECT_EQ(parse("{scorer: file, kept: copy.h5, method: Mine}").runs.at(0).key, first.runs.at(0).key);
  std::ofstream(folder_ / "mine.h5") << "others";
  EXPECT_NE(parse("{scorer: file, kept: mine.h5, method: Mine}").runs.at(0).key, first.runs.at(0).key);
  EXPECT_THAT(error_of("{scorer: file, kept: none.h5}"), HasSubstr("none.h5"));
}

TEST_F(EvictStage, TraceMayHaveACompanion) {
  const Experiment with = parse("{}", "{file: t.h5, companion: more.h5}");
  EXPECT_EQ(with.runs.at(0).setting.trace.companion, (folder_ / "more.h5").string());
  EXPECT_EQ(with.runs.at(0).setting.trace.path, (folder_ / "t.h5").string());
  EXPECT_NE(with.runs.at(0).key, parse("{}").runs.at(0).key);
  EXPECT_EQ(parse("{}", "{file: t.h5}").runs.at(0).key, parse("{}").runs.at(0).key);
}

// Llama-3.1-8B has 32 layers of 32 query and 8 KV heads. A table for either is fitted; one for another model waits for the
// trace. The file's budgets replace the preset's own way to spread.
TEST_F(EvictStage, ATableOfHeadsSetsTheBudgetOfEach) {
  const auto write = [&](std::int64_t layers, std::int64_t heads) {
    std::ofstream file(folder_ / "heads.tsv");
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      for (std::int64_t head = 0; head < heads; ++head) file << (head > 0 ? "\t" : "") << head;
      file << "\n";
    }
  };
  const auto budget = [&](const std::string& compression) {
    return parse_experiment("name: n\nmodel: llama-3.1-8b\ngpu: h100-sxm\ntrace: t.h5\ncompression: " + compression,
                            "e.yaml", folder_.string(), {})
        .runs.at(0)
        .setting;
  };
  write(32, 32);
  const Setting headkv = budget("{preset: headkv, heads_file: heads.tsv, keep_ratio: 0.25, beta: 2}");
  EXPECT_EQ(headkv.layer_budget.kind, kv::LayerBudget::Kind::heads);
  EXPECT_EQ(headkv.layer_budget.heads.num_heads, 8);
  EXPECT_EQ(headkv.layer_budget.heads.scores.at(1), 5.5);  // heads 4..7
  EXPECT_FALSE(headkv.layer_budget.head_rule.keeps_whole_heads);
  EXPECT_EQ(headkv.layer_budget.head_rule.beta, 2);
  EXPECT_EQ(headkv.layer_budget.head_rule.window, 64);
  EXPECT_EQ(std::get<kv::Evict>(headkv.compression.stages.at(0)).heads, kv::HeadScope::per_head);
  write(32, 8);
  const Setting duo = budget("{preset: duoattention, heads_file: heads.tsv, share: 0.25}");
  EXPECT_TRUE(duo.layer_budget.head_rule.keeps_whole_heads);
  EXPECT_EQ(duo.layer_budget.head_rule.share, 250000);
  EXPECT_FALSE(std::get<kv::Evict>(duo.compression.stages.at(0)).threshold);
  EXPECT_NE(compression_text(duo),
            compression_text(budget("{preset: duoattention, heads_file: heads.tsv, share: 0.5}")));
  write(30, 9);
  EXPECT_THAT(
      budget("{preset: headkv, heads_file: heads.tsv}").layer_budget.heads_misfit,
      HasSubstr("a table of 30 x 9 heads; expected that of llama-3.1-8b, 32 x 32 query heads or 32 x 8 KV heads"));
  EXPECT_THAT(error_of("{scorer: headkv, heads_file: none.tsv}"), HasSubstr("heads_file: "));
  EXPECT_THAT(error_of("{scorer: headkv, heads_file: none.tsv}"), HasSubstr("no such file"));
  EXPECT_THAT(error_of("{scorer: snapkv, heads: shared, heads_file: heads.tsv}"), HasSubstr("expected heads per_head"));
  EXPECT_THAT(error_of("{scorer: snapkv, budget: pyramid, heads_file: heads.tsv}"),
              HasSubstr("either heads_file or budget"));
  EXPECT_THAT(error_of("{scorer: snapkv, beta: 2}"), HasSubstr("beta"));
}

}  // namespace
}  // namespace kvtide::experiment

// The models of models/ against the table of facts, and against counts that their publishers state.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/error.h"
#include "model/model.h"

namespace kvtide {
namespace {

using testing::HasSubstr;

class ShippedModel : public testing::Test {
 protected:
  void SetUp() override { setenv("KVTIDE_DATA_DIR", KVTIDE_SOURCE_DIR, 1); }
  void TearDown() override { unsetenv("KVTIDE_DATA_DIR"); }
};

// 2 * 32 layers * 8 heads * 128 * 2 B; the parameter count is the one its model page states (8.03 B).
TEST_F(ShippedModel, Llama31HasPublishedBytesPerTokenAndParameters) {
  const Model model = load_model("llama-3.1-8b");
  EXPECT_EQ(model.kv_bytes_per_token(), 131072u);
  EXPECT_EQ(model.num_parameters(), 8030261248u);
  EXPECT_EQ(model.weight_bytes(), 16060522496u);
  EXPECT_EQ(model.rope_scaling, "llama3");
  EXPECT_EQ(model.unsupported_reason(), "");
}

// OpenAI's model card of gpt-oss (arXiv 2508.10925), table 1: checkpoints of 60.8 and 12.8 GiB.
TEST_F(ShippedModel, GptOssWeighsWhatItsModelCardSays) {
  const auto gib = [](const char* name) {
    const Model model = load_model(name);
    return static_cast<double>(model.weight_bytes(*model.published_weights.storage)) / static_cast<double>(kGiB);
  };
  EXPECT_NEAR(gib("gpt-oss-120b"), 60.8, 0.05);
  EXPECT_NEAR(gib("gpt-oss-20b"), 12.8, 0.05);
}

// 2 * 30 * 3 * 64 * 2 B = 23,040. Parameters: 30 * (576*(2*576 + 2*192) + 3*576*1536 + 1152) + 49152*576 + 576.
TEST_F(ShippedModel, SmolLm2TiesItsEmbeddings) {
  const Model model = load_model("smollm2-135m");
  EXPECT_EQ(model.kv_bytes_per_token(), 23040u);
  EXPECT_EQ(model.num_parameters(), 134515008u);
}

TEST_F(ShippedModel, UnknownNameListsTheKnownAndTheNearest) {
  try {
    (void)load_model("llama-3.1-8");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean llama-3.1-8b?"));
  }
}

TEST_F(ShippedModel, EveryOneLoadsAndNamesItsSource) {
  const std::vector<std::string> names = known_models();
  EXPECT_GE(names.size(), 48u);
  for (const std::string& name : names) {
    const Model model = load_model(name);
    EXPECT_THAT(model.source, HasSubstr("Hugging Face")) << name;
    EXPECT_EQ(static_cast<std::int64_t>(model.kind_of_layer.size()), model.num_layers) << name;
  }
}

// DeepSeek-V3's report (arXiv:2412.19437) states 671 B parameters of which 37 B are active, Kimi-K2's page 1 T and 32 B,
// Mixtral's paper (arXiv:2401.04088) 47 B and 13 B, GPT-OSS-120B's card 116.8 B, Qwen3-30B-A3B's page 30.5 B and 3.3 B.
TEST_F(ShippedModel, ExpertModelsHaveThePublishedTotals) {
  const auto billions = [](std::uint64_t count) { return static_cast<double>(count) * 1e-9; };
  EXPECT_NEAR(billions(load_model("deepseek-v3").num_parameters()), 671, 0.5);
  EXPECT_NEAR(billions(load_model("deepseek-v3").num_active_parameters()), 37, 0.6);
  EXPECT_NEAR(billions(load_model("kimi-k2").num_active_parameters()), 32, 0.9);
  EXPECT_NEAR(billions(load_model("mixtral-8x7b").num_parameters()), 47, 0.5);
  EXPECT_NEAR(billions(load_model("mixtral-8x7b").num_active_parameters()), 13, 0.5);
  EXPECT_NEAR(billions(load_model("gpt-oss-120b").num_parameters()), 116.8, 0.05);
  EXPECT_NEAR(billions(load_model("qwen3-30b-a3b").num_parameters()), 30.5, 0.05);
  EXPECT_NEAR(billions(load_model("qwen3-30b-a3b").num_active_parameters()), 3.3, 0.06);
}

// Gemma-3n E4B: 35 layers, of which the last 15 read caches of others; 2 heads x 256 x (K and V) x 2 B = 2,048 B a layer and
// token: 20 layers, 4 of them whole (5, 10, 15, 20): 8,192 B growing; 16 windows of 512: 16 MiB.
// Parameters: a layer has 2048 * (2048 + 512 + 512 + 2048) + 2 * 256 (attention), 3 * 2048 * 16384 (MLP), 4 * 2048 (norms),
// 2 * 2048 * 256 + 2048 (own embedding), 2048 * 6 + 80 (AltUp), 2 * 2048 * 64 + 2048 (LAuReL) = 112,484,944; beside 35 of
// them 262400 * 2048 + 2048, (262144 + 2048) * 8960 + 256 and 6 * 2048^2. Pages of its converted files (LM Studio) state 6.9 B, those of E2B 4.5 B.
TEST_F(ShippedModel, Gemma3nSharesTheCachesOfItsLastLayers) {
  const Model model = load_model("gemma-3n-e4b");
  EXPECT_EQ(model.kv_bytes_per_token(), 20u * 2048);
  EXPECT_EQ(model.kv_bytes_per_token_growing(), 4u * 2048);
  EXPECT_EQ(window_cap_bytes(model.layers), 16u * 512 * 2048);
  EXPECT_EQ(model.num_parameters(),
            std::uint64_t{35} * 112'484'944 + 537'395'200 + 2048 + std::uint64_t{264'192} * 8960 + 256 + 6 * 4'194'304);
  EXPECT_NEAR(static_cast<double>(model.num_parameters()) * 1e-9, 6.9, 0.05);
  EXPECT_EQ(model.unsupported_reason(), "");
  const Model small = load_model("gemma-3n-e2b");
  EXPECT_EQ(small.kv_bytes_per_token(), 20u * 2048);
  EXPECT_NEAR(static_cast<double>(small.num_parameters()) * 1e-9, 4.5, 0.05);
}

// A class whose weights are not counted says so instead of giving a number.
TEST_F(ShippedModel, UncountedWeightsAreRefusedWhileBytesAreExact) {
  const Model model = load_model("minimax-text-01");
  EXPECT_EQ(model.kv_bytes_per_token(), 40960u);
  EXPECT_THROW((void)model.num_parameters(), InputError);
}

/// Fields of one CSV line; quotes may hold commas.
std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> fields(1);
  bool is_quoted = false;
  for (const char c : line) {
    if (c == '"') {
      is_quoted = !is_quoted;
    } else if (c == ',' && !is_quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

// Every row of the table: layers, bytes, window cap, parameters, rotation.
TEST_F(ShippedModel, EveryRowOfTheFactsIsReproduced) {
  std::ifstream file(KVTIDE_SOURCE_DIR "/../shared/data/model-facts.csv");
  if (!file) GTEST_SKIP() << "the table of model facts is not at hand";
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> header = split(line);
  int num_rows = 0;
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = split(line);
    std::map<std::string, std::string> row;
    for (std::size_t i = 0; i < header.size(); ++i) row[header[i]] = fields.at(i);
    std::string name = row["model"].substr(0, row["model"].find('/'));
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    SCOPED_TRACE(name);
    const Model model = load_model(name);
    EXPECT_EQ(std::to_string(model.num_layers), row["layers"]);
    EXPECT_EQ(std::to_string(model.head_dim), row["head_dim_k"]);
    EXPECT_EQ(std::to_string(model.v_head_dim), row["head_dim_v"]);
    EXPECT_EQ(std::to_string(model.kv_bytes_per_token()), row["kv_bytes_per_token_fp16_all"]);
    EXPECT_EQ(std::to_string(model.kv_bytes_per_token_growing()), row["kv_bytes_per_token_fp16_growing"]);
    EXPECT_EQ(std::to_string(window_cap_bytes(model.layers)), row["kv_window_cap_bytes_fp16"]);
    EXPECT_EQ(std::to_string(model.rope.rotary_dim), row["rot_dim"]);
    const bool has_rotation = row["rope_theta"] != "learned";
    EXPECT_EQ(model.rope.theta, has_rotation ? std::stod(row["rope_theta"]) : 0);
    EXPECT_EQ(model.rope_scaling, row["rope_scaling"].substr(0, row["rope_scaling"].find(' ')));
    if (!row["params_computed"].empty()) {
      EXPECT_EQ(std::to_string(model.num_parameters()), row["params_computed"]);
    }
    if (!row["params_active_computed"].empty()) {
      EXPECT_EQ(std::to_string(model.num_active_parameters()), row["params_active_computed"]);
    }
    ++num_rows;
  }
  EXPECT_EQ(num_rows, 48);
}

}  // namespace
}  // namespace kvtide

#include "model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace kvtide {
namespace {

using testing::HasSubstr;

/// Writes a config.json and loads it.
Model load_text(const std::string& text) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "model_test_config.json";
  std::ofstream(path) << text;
  return load_model(path.string());
}

std::string error_of(const std::string& text) {
  try {
    (void)load_text(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

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

// Field case C4: 36 layers, 8 KV heads, head_dim 128 given although 2560 / 32 = 80: 2*36*8*128*2 B.
TEST(ModelFile, HeadDimIsNotHiddenOverHeads) {
  EXPECT_EQ(load_text(R"({"num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
                          "hidden_size": 2560})")
                .kv_bytes_per_token(),
            147456u);
}

std::string with_head_dim(const std::string& entry) {
  return R"({"num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 4, "hidden_size": 3584)" +
         entry + "}";
}

// Field case G2: 256 -> 2*2*4*256*2 = 8,192; absent or null -> 3584/16 = 224 -> 7,168.
TEST(ModelFile, OddValuesForHeadDimAreRefusedAndAbsentMeansHiddenOverHeads) {
  EXPECT_EQ(load_text(with_head_dim(R"(, "head_dim": 256)")).kv_bytes_per_token(), 8192u);
  EXPECT_EQ(load_text(with_head_dim("")).kv_bytes_per_token(), 7168u);
  EXPECT_EQ(load_text(with_head_dim(R"(, "head_dim": null)")).kv_bytes_per_token(), 7168u);
  for (const char* wrong : {"true", "0", "-1", "\"128\"", "1.5"}) {
    EXPECT_THAT(error_of(with_head_dim(std::string(", \"head_dim\": ") + wrong)),
                HasSubstr("head_dim: expected an integer"))
        << wrong;
  }
}

// Field case G3: 2 * 32 layers * 32 heads * 128 * 2 B.
TEST(ModelFile, AbsentKvHeadsEqualQueryHeads) {
  EXPECT_EQ(
      load_text(R"({"num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 4096})").kv_bytes_per_token(),
      524288u);
}

TEST(ModelFile, KvHeadsMustDivideQueryHeads) {
  EXPECT_THAT(
      error_of(R"({"num_hidden_layers": 1, "num_attention_heads": 32, "num_key_value_heads": 5, "hidden_size": 64})"),
      HasSubstr("num_key_value_heads: expected a divisor of num_attention_heads 32, got 5"));
}

TEST(ModelFile, HiddenSizeThatDoesNotDivideNeedsAHeadDim) {
  EXPECT_THAT(error_of(R"({"num_hidden_layers": 1, "num_attention_heads": 3, "hidden_size": 64})"),
              HasSubstr("head_dim is absent"));
}

// Field case C13: 80 layers * 8 heads * 128 * 2 (K, V) * 2 B * 32,768 tokens = 10,737,418,240 B > 2^32.
TEST(ModelFile, ProductsAreExactBeyond32Bits) {
  const Model model = load_text(
      R"({"num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "hidden_size": 8192})");
  EXPECT_EQ(model.kv_bytes_per_token() * 32768, 10737418240u);
  Model huge = model;  // 10^4 * 65536 * 65536 * 4 = 1.7e14 B a token still fits
  huge.num_layers = 10'000;
  huge.num_kv_heads = huge.num_query_heads = huge.head_dim = 65536;
  EXPECT_EQ(huge.kv_bytes_per_token(), 171798691840000u);
}

std::string dense(const std::string& more) {
  return R"({"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64, "intermediate_size": 128, "vocab_size": 100,
             "max_position_embeddings": 4096, )" +
         more + "}";
}

TEST(ModelFile, WhatCannotBeRepresentedIsRefusedByName) {
  EXPECT_THAT(error_of(dense(R"("kv_lora_rank": 512)")), HasSubstr("kv_lora_rank: latent attention"));
  EXPECT_THAT(error_of(dense(R"("num_local_experts": 8)")), HasSubstr("num_local_experts: mixture of experts"));
  EXPECT_THAT(error_of(dense(R"("layer_types": ["full_attention", "sliding_attention"])")),
              HasSubstr("layer_types[1]"));
  EXPECT_THAT(error_of(dense(R"("model_type": "gemma3")")), HasSubstr("model_type: expected one of"));
  EXPECT_EQ(error_of(dense(R"("attention_bias": false, "rope_scaling": null)")), "");
}

// A window matters only below the largest position and when it is switched on.
TEST(ModelFile, OnlyAWindowInUseIsRefused) {
  EXPECT_THAT(error_of(dense(R"("sliding_window": 4095)")), HasSubstr("sliding_window"));
  EXPECT_EQ(error_of(dense(R"("sliding_window": 4096)")), "");
  EXPECT_EQ(error_of(dense(R"("sliding_window": null)")), "");
  EXPECT_EQ(error_of(dense(R"("sliding_window": 1024, "use_sliding_window": false)")), "");
  EXPECT_THAT(error_of(dense(R"("sliding_window": 1024, "use_sliding_window": true)")), HasSubstr("sliding_window"));
  EXPECT_THAT(error_of(dense(R"("model_type": "mistral", "rope_theta": 10000)")), HasSubstr("means 4096"));
}

TEST(ModelFile, MisspeltKeyIsAnErrorNotADefault) {
  EXPECT_THAT(error_of(dense(R"("num_key_value_head": 2)")), HasSubstr("did you mean num_key_value_heads?"));
}

// Published by the Qwen2.5 and Qwen3 model pages as 7.61 B and 8.19 B; exact counts follow from the biases and norms:
// Qwen3-8B: 36*(4096*(2*4096+2*1024) + 3*4096*12288 + 2*4096 + 2*128) + 2*151936*4096 + 4096.
TEST(ModelFile, BiasesAndQueryNormsCount) {
  EXPECT_EQ(
      load_text(R"({"model_type": "qwen3", "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 128, "hidden_size": 4096, "intermediate_size": 12288, "vocab_size": 151936, "max_position_embeddings": 40960,
    "rope_theta": 1000000})")
          .num_parameters(),
      8190735360u);
  EXPECT_EQ(
      load_text(R"({"model_type": "qwen2", "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "hidden_size": 3584, "intermediate_size": 18944, "vocab_size": 152064, "max_position_embeddings": 131072,
    "rope_theta": 1000000})")
          .num_parameters(),
      7615616512u);
}

}  // namespace
}  // namespace kvtide

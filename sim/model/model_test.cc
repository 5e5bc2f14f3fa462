#include "model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "model/testing/load_text.h"

namespace kvtide {
namespace {

using testing::HasSubstr;
using testing_support::error_of;
using testing_support::load_text;

TEST(ShippedModelOf, IgnoresWhatDoesNotChangeTheShape) {
  EXPECT_EQ(shipped_model("meta-llama/Llama-3.1-8B-Instruct"), "llama-3.1-8b");
  EXPECT_EQ(shipped_model("Qwen/Qwen2.5-7B-Instruct-AWQ"), "qwen2.5-7b");
  EXPECT_EQ(shipped_model("meta-llama/Llama-3.1-80B"), "");
  EXPECT_EQ(shipped_model("nobody/unknown-1b"), "");
  EXPECT_EQ(shipped_model("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4"), "qwen2.5-7b");
  EXPECT_EQ(shipped_model("Mixtral-8x7B-Instruct-v0.1.Q4_K_M.gguf"), "mixtral-8x7b");
  EXPECT_EQ(shipped_model("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16"), "llama-3.1-8b");
}

// DeepSeek-V2-Lite has 27 layers where DeepSeek-V2 has 60; a name that goes on is another checkpoint.
TEST(ShippedModelOf, ALongerNameIsAnotherModel) {
  for (const char* other : {"deepseek-ai/DeepSeek-V2-Lite", "deepseek-ai/DeepSeek-V2-Lite-FP8",
                            "microsoft/Phi-4-multimodal-instruct", "Qwen/Qwen2.5-7B-Instruct-Abliterated"}) {
    EXPECT_EQ(shipped_model(other), "") << other;
    try {
      (void)load_model(other);
      ADD_FAILURE() << other;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("neither a file nor a name in models/")) << other;
    }
  }
}

// A version does not change the shape; another format of the weights does not either, but is said.
TEST(ShippedModelOf, ARepositoryIsTheModelOfItsName) {
  EXPECT_EQ(load_model("Qwen/Qwen2.5-32B-Instruct").name, "qwen2.5-32b");
  EXPECT_EQ(load_model("mistralai/Mixtral-8x7B-Instruct-v0.1").name, "mixtral-8x7b");
  EXPECT_EQ(load_model("LLAMA-3.1-8B").name, "llama-3.1-8b");
  for (const char* other : {"Qwen/Qwen2.5-32B-Instruct-AWQ", "mistralai/Mixtral-8x7B-Instruct-v0.1-GPTQ"}) {
    try {
      (void)load_model(other);
      ADD_FAILURE() << other;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("weights in 16 bits")) << other;
    }
  }
  // A file that is not there is none of them.
  EXPECT_THROW((void)load_model("Qwen/Qwen2.5-32B-Instruct/config.json"), InputError);
  EXPECT_THROW((void)load_model("models/llama-3.1-8b.json.json"), InputError);
}

class CheckpointFolder : public testing::Test {
 protected:
  CheckpointFolder() {
    std::filesystem::create_directories(folder_ / "mine" / "qwen2.5-7b");
    std::ofstream(folder_ / "mine" / "qwen2.5-7b" / "config.json") << testing_support::small("llama", "");
    std::ofstream(folder_ / "mine" / "qwen2.5-14b.json") << testing_support::small("llama", "");
    std::filesystem::current_path(folder_);
  }
  ~CheckpointFolder() override {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(folder_);
  }

  const std::filesystem::path before_ = std::filesystem::current_path();
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("model_test_" + std::to_string(::getpid()));
};

// small() has 4 layers; the shipped qwen2.5-7b has 28.
TEST_F(CheckpointFolder, IsReadAndNotTheShippedModelOfItsName) {
  for (const std::string path : {"mine/qwen2.5-7b", "mine/qwen2.5-7b/", "./mine/qwen2.5-7b"}) {
    EXPECT_EQ(load_model(path).num_layers, 4) << path;
  }
  for (const char* path : {"mine/qwen2.5-14b.json", "mine/qwen2.5-14b", "./mine/qwen2.5-14b"})
    EXPECT_EQ(load_model(path).num_layers, 4) << path;
  EXPECT_EQ(load_model("yours/qwen2.5-7b").num_layers, 28);  // no such folder: an id
}

TEST_F(CheckpointFolder, WithoutAConfigIsRefused) {
  try {
    (void)load_model("mine/qwen2.5-32b");
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("a path: mine/ is there"));
  }
}

// Field case C4: 36 layers, 8 KV heads, head_dim 128 given although 2560 / 32 = 80: 2*36*8*128*2 B; 32,768 tokens are
// 4.5 GiB.
TEST(ModelFile, HeadDimIsNotHiddenOverHeads) {
  const Model model =
      load_text(R"({"num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
                    "hidden_size": 2560, "max_position_embeddings": 32768})");
  EXPECT_EQ(model.kv_bytes_per_token(), 147456u);
  EXPECT_EQ(cache_bytes(model.layers, 32768), 9 * kGiB / 2);
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

TEST(ModelFile, SizesThatDecideTheCacheHaveNoDefault) {
  const std::string message = error_of(R"({"model_type": "llama", "vocab_size": 100})");
  for (const char* key : {"num_hidden_layers", "num_attention_heads", "hidden_size"}) {
    EXPECT_THAT(message, HasSubstr(std::string(key) + ": missing"));
  }
}

// Field case C13: 80 layers * 8 heads * 128 * 2 (K, V) * 2 B * 32,768 tokens = 10,737,418,240 B > 2^32. The largest
// file: 10,000 layers * 65,536 heads * 65,536 * 4 B = 1.7e14 B a token still fits.
TEST(ModelFile, ProductsAreExactBeyond32Bits) {
  const Model model = load_text(
      R"({"num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "hidden_size": 8192})");
  EXPECT_EQ(cache_bytes(model.layers, 32768), 10737418240u);
  const Model huge = load_text(
      R"({"num_hidden_layers": 10000, "num_attention_heads": 65536, "head_dim": 65536, "hidden_size": 8192})");
  EXPECT_EQ(huge.kv_bytes_per_token(), 171798691840000u);
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

/// Field cases C3 and C6: 48 layers, 4 KV heads of 128.
Model forty_eight_layers() {
  return load_text(R"({"num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
                       "hidden_size": 2048, "max_position_embeddings": 262144})");
}

// Field case C3: 262,144 tokens * 16 layers * 2,048 B = 8 GiB; 32 layers 16 GiB.
TEST(ModelShare, StageStoresItsOwnLayers) {
  const Model model = forty_eight_layers();
  EXPECT_EQ(cache_bytes(model.layers_between(0, 16), 262144), 8 * kGiB);
  EXPECT_EQ(cache_bytes(model.layers_between(16, 48), 262144), 16 * kGiB);
  EXPECT_EQ(bytes_per_token(model.layers_between(7, 7)), 0u);
  EXPECT_THROW((void)model.layers_between(0, 49), InputError);
  EXPECT_THROW((void)model.layers_between(5, 4), InputError);
}

// Field case C6: 98,304 B a token, divided until each rank has one head, then repeated.
TEST(ModelShare, RanksBeyondTheKvHeadsRepeatThem) {
  const Model model = forty_eight_layers();
  const Bytes expected[] = {98304, 49152, 24576, 24576, 24576};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(bytes_per_token(model.layers_of_rank(1 << i)), expected[i]) << (1 << i);
  EXPECT_THROW((void)model.layers_of_rank(3), InputError);
  EXPECT_THROW((void)model.layers_of_rank(6), InputError);
  EXPECT_THROW((void)model.layers_of_rank(0), InputError);
}

TEST(ModelShare, LatentVectorIsOnEveryRank) {
  const Model model = load_model(KVTIDE_SOURCE_DIR "/sim/model/testdata/deepseek-v3-mla-yarn-type.json");
  EXPECT_EQ(bytes_per_token(model.layers_of_rank(8)), 70272u);
}

}  // namespace
}  // namespace kvtide

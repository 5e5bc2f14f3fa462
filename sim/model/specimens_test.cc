// Twelve published configuration files that break naive readers (testdata/README.md), and what each must give.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "model/model.h"

namespace kvtide {
namespace {

Model specimen(const std::string& name) {
  return load_model(KVTIDE_SOURCE_DIR "/sim/model/testdata/" + name + ".json");
}

/// Layers of one kind.
std::int64_t count_of(const Model& model, AttentionKind kind) {
  std::int64_t sum = 0;
  for (const LayerKind& layer : model.layers) sum += layer.kind == kind ? layer.count : 0;
  return sum;
}

struct Expected {
  const char* name;
  std::int64_t full, sliding, linear;
  Bytes all, growing, window_cap;
};

// full layers * 2 * KV heads * head_dim * 2 B unless said.
const Expected kExpected[] = {
    // 61 * (512 + 64) * 2 B; field case C5.
    {"deepseek-v3-mla-yarn-type", 61, 0, 0, 70272, 70272, 0},
    // 32 * 2 * 1 * 64 * 2 B: multi_query, although 71 KV heads are written in the second.
    {"falcon-7b-legacy-names", 32, 0, 0, 8192, 8192, 0},
    {"falcon-7b-resaved-kv71", 32, 0, 0, 8192, 8192, 0},
    // 1,024 B a layer; 15 windows of 512: 15 * 512 * 1,024.
    {"gemma3-270m-layer-types-rope-parameters", 3, 15, 0, 18432, 3072, 7864320},
    // 4,096 B a layer; every 6th of 34 full; 29 * 1,024 * 4,096.
    {"gemma3-4b-nested-omitted-heads", 5, 29, 0, 139264, 20480, 121634816},
    // 2,048 B a layer; 12 * 128 * 2,048.
    {"gpt-oss-20b-layer-types-sinks", 12, 12, 0, 49152, 24576, 3145728},
    // 36 * 2 * 20 * 64 * 2 B.
    {"gpt2-large-n-embd", 36, 0, 0, 184320, 184320, 0},
    // 32 * 2 * 32 * 128 * 2 B; field case G3.
    {"llama1-7b-missing-kv-heads", 32, 0, 0, 524288, 524288, 0},
    {"llama3.1-8b-rope-llama3", 32, 0, 0, 131072, 131072, 0},
    // 10 * 2 * 8 * 128 * 2 B; the 70 linear layers hold no token.
    {"minimax-text-01-attn-type-list", 10, 0, 70, 40960, 40960, 0},
    // 28 * 2 * 4 * 128 * 2 B.
    {"qwen2-7b-window-present-but-off", 28, 0, 0, 57344, 57344, 0},
    // 64 * 2 * 8 * 128 * 2 B.
    {"qwen3-32b-fp8-kvcache-scheme", 64, 0, 0, 262144, 262144, 0},
};

TEST(Specimens, BytesPerTokenAndLayersAreExact) {
  for (const Expected& expected : kExpected) {
    SCOPED_TRACE(expected.name);
    const Model model = specimen(expected.name);
    EXPECT_EQ(count_of(model, AttentionKind::full_attention), expected.full);
    EXPECT_EQ(count_of(model, AttentionKind::sliding_attention), expected.sliding);
    EXPECT_EQ(count_of(model, AttentionKind::linear_attention), expected.linear);
    EXPECT_EQ(model.kv_bytes_per_token(), expected.all);
    EXPECT_EQ(model.kv_bytes_per_token_growing(), expected.growing);
    EXPECT_EQ(window_cap_bytes(model.layers), expected.window_cap);
  }
}

TEST(Specimens, EveryFileOfTheFolderIsExpected) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(KVTIDE_SOURCE_DIR "/sim/model/testdata")) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::vector<std::string> listed;
  for (const Expected& expected : kExpected) listed.emplace_back(expected.name);
  std::ranges::sort(names);
  EXPECT_EQ(names, listed);
}

// Field case C5: 65,536 tokens at 4 bits, 61 * 576 * 65,536 / 2 B = 1,098 MiB: a quarter of the 16-bit cache.
TEST(Specimens, LatentIsOneVectorAndNotKeyAndValue) {
  const Model model = specimen("deepseek-v3-mla-yarn-type");
  ASSERT_EQ(model.layers.size(), 1u);
  EXPECT_EQ(model.layers[0].k_bytes, 1152u);
  EXPECT_EQ(model.layers[0].v_bytes, 0u);
  EXPECT_EQ(cache_bytes(model.layers, 65536) / 4, 1098 * kMiB);
  EXPECT_EQ(model.num_prediction_layers, 1);  // its cache is not in the sums
}

TEST(Specimens, Fp8SchemeAsAWordHalvesTheStoredBytes) {
  const Model model = specimen("qwen3-32b-fp8-kvcache-scheme");
  EXPECT_EQ(model.kv_format.name, "fp8");
  EXPECT_EQ(model.kv_bytes_per_token_stored(), 131072u);
}

TEST(Specimens, WeightQuantizationSaysNothingAboutTheCache) {
  const Model model = specimen("gpt-oss-20b-layer-types-sinks");
  EXPECT_EQ(model.published_weights.name, "mxfp4");
  EXPECT_EQ(model.kv_bytes_per_token_stored(), model.kv_bytes_per_token());
}

TEST(Specimens, RotationIsReadPerLayerType) {
  const Model small_gemma = specimen("gemma3-270m-layer-types-rope-parameters");
  EXPECT_EQ(small_gemma.rope.theta, 1e6);
  EXPECT_EQ(small_gemma.sliding_rope.theta, 1e4);
  const Model gemma = specimen("gemma3-4b-nested-omitted-heads");  // class defaults: 1e6 and 1e4
  EXPECT_EQ(gemma.rope.theta, 1e6);
  EXPECT_EQ(gemma.rope.scaling.type, "linear");
  EXPECT_EQ(gemma.rope.scaling.factor, 8);
  EXPECT_EQ(gemma.sliding_rope.theta, 1e4);
  EXPECT_EQ(gemma.sliding_rope.scaling.type, "none");
}

TEST(Specimens, ScalingKeepsItsParameters) {
  const RopeScaling deepseek = specimen("deepseek-v3-mla-yarn-type").rope.scaling;
  EXPECT_EQ(deepseek.type, "yarn");
  EXPECT_EQ(deepseek.factor, 40);
  EXPECT_EQ(deepseek.original_positions, 4096);
  EXPECT_TRUE(deepseek.truncates);
  EXPECT_EQ(deepseek.mscale_all_dim, 1.0);
  EXPECT_FALSE(specimen("gpt-oss-20b-layer-types-sinks").rope.scaling.truncates);
  const RopeScaling llama = specimen("llama3.1-8b-rope-llama3").rope.scaling;
  EXPECT_EQ(llama.low_freq_factor, 1);
  EXPECT_EQ(llama.high_freq_factor, 4);
  EXPECT_EQ(specimen("minimax-text-01-attn-type-list").rope.rotary_dim, 64);
  EXPECT_EQ(specimen("deepseek-v3-mla-yarn-type").rope.rotary_dim, 64);
  EXPECT_EQ(specimen("gpt2-large-n-embd").rope.rotary_dim, 0);
}

// 64 query heads with a state of 128 x 128 each.
TEST(Specimens, LinearLayerHoldsAConstantState) {
  EXPECT_EQ(specimen("minimax-text-01-attn-type-list").state_elements, 64 * 128 * 128);
}

// Which of them the rest of the simulator can run.
TEST(Specimens, WhatCannotBeRunSaysWhy) {
  std::map<std::string, std::string> reasons;
  for (const Expected& expected : kExpected) reasons[expected.name] = specimen(expected.name).unsupported_reason();
  EXPECT_EQ(reasons["llama3.1-8b-rope-llama3"], "");
  EXPECT_EQ(reasons["llama1-7b-missing-kv-heads"], "");
  EXPECT_EQ(reasons["qwen2-7b-window-present-but-off"], "");
  EXPECT_EQ(reasons["deepseek-v3-mla-yarn-type"], "");
  EXPECT_EQ(reasons["gpt-oss-20b-layer-types-sinks"], "");
  EXPECT_EQ(reasons["minimax-text-01-attn-type-list"], "weights of class minimax_text_01, which are not counted");
  EXPECT_EQ(reasons["falcon-7b-resaved-kv71"], "");
  EXPECT_EQ(reasons["qwen3-32b-fp8-kvcache-scheme"], "a checkpoint with a fp8 KV cache");
}

}  // namespace
}  // namespace kvtide

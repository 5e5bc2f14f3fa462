#include "model/layer_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/testing/load_text.h"

namespace kvtide {
namespace {

using testing::HasSubstr;
using testing_support::error_of;
using testing_support::load_text;
using testing_support::small;

/// One letter a layer: F full, S sliding, C chunked, K compressed, L linear, R shared, - none.
std::string pattern(const Model& model) {
  std::string letters;
  for (const std::size_t kind : model.kind_of_layer) {
    letters += std::string("FSCKLR-")[static_cast<std::size_t>(model.layers[kind].kind)];
  }
  return letters;
}

std::string pattern_of(const std::string& type, const std::string& more) {
  return pattern(load_text(small(type, more)));
}

// Field case G1: 28 layers * 2 * 2 heads * 128 * 2 B * 8,192 tokens = 224 MiB.
TEST(LayerPattern, WindowThatIsSwitchedOffIsNone) {
  const Model model = load_text(
      R"({"model_type": "qwen2", "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2, "head_dim": 128,
          "hidden_size": 1536, "max_position_embeddings": 32768, "sliding_window": 4096, "use_sliding_window": false})");
  EXPECT_EQ(cache_bytes(model.layers, 8192), 224 * kMiB);
}

TEST(LayerPattern, AbsentWindowIsTheClassesAndNullIsNone) {
  const std::string long_context = R"("max_position_embeddings": 32768)";
  const auto mistral = [](const std::string& more) {
    return pattern(
        load_text(R"({"model_type": "mistral", "num_hidden_layers": 2, "num_attention_heads": 8, "hidden_size": 128)" +
                  more + "}"));
  };
  EXPECT_EQ(mistral(""), "SS");  // MistralConfig: 4,096
  EXPECT_EQ(mistral(R"(, "sliding_window": null)"), "FF");
}

TEST(LayerPattern, WindowAsLongAsThePositionsIsInert) {
  EXPECT_EQ(pattern_of("phi3", R"("sliding_window": 4095)"), "SSSS");
  EXPECT_EQ(pattern_of("phi3", R"("sliding_window": 4096)"), "FFFF");
  EXPECT_EQ(pattern_of("phi3", ""), "FFFF");
}

TEST(LayerPattern, QwenWindowStartsAtMaxWindowLayers) {
  EXPECT_EQ(pattern_of("qwen2", R"("sliding_window": 64, "use_sliding_window": true, "max_window_layers": 3)"), "FFFS");
  EXPECT_EQ(pattern_of("qwen2", R"("sliding_window": 64, "max_window_layers": 3)"), "FFFF");
}

TEST(LayerPattern, ClassRulesHoldWhereNothingIsListed) {
  EXPECT_EQ(pattern_of("gemma2", R"("sliding_window": 64)"), "SFSF");
  EXPECT_EQ(pattern_of("gpt_oss", R"("num_local_experts": 4, "num_experts_per_tok": 2)"), "SFSF");
  EXPECT_EQ(pattern_of("cohere2", R"("sliding_window": 64)"), "SSSF");
  EXPECT_EQ(pattern_of("gemma3_text", R"("sliding_window": 64, "sliding_window_pattern": 2)"), "SFSF");
  EXPECT_EQ(pattern_of("exaone4", R"("sliding_window": 64, "sliding_window_pattern": "LG")"), "SFSF");
  EXPECT_EQ(pattern_of("exaone4", R"("sliding_window": null)"), "FFFF");
  EXPECT_EQ(pattern_of("llama4_text", R"("attention_chunk_size": 64)"), "CCCF");
  EXPECT_EQ(pattern_of("llama4_text", R"("attention_chunk_size": 64, "no_rope_layers": [0, 1, 0, 1])"), "FCFC");
  EXPECT_EQ(pattern_of("llama4_text", R"("attention_chunk_size": null)"), "FFFF");
  EXPECT_EQ(pattern_of("qwen3_next", R"("full_attention_interval": 2)"), "LFLF");
  EXPECT_EQ(pattern_of("jamba", R"("attn_layer_period": 4, "attn_layer_offset": 1)"), "LFLL");
}

TEST(LayerPattern, EverySpellingOfAListIsRead) {
  EXPECT_EQ(pattern_of("qwen3", R"("layer_types": ["full_attention", "sliding_attention", "linear_attention",
                                    "full_attention"], "sliding_window": 64, "use_sliding_window": true)"),
            "FSLF");
  EXPECT_EQ(pattern_of("nemotron_h", R"("hybrid_override_pattern": "M-*E")"), "L-F-");
  EXPECT_EQ(pattern_of("nemotron_h", R"("layers_block_type": ["mamba", "attention", "moe", "mlp"])"), "LF--");
  EXPECT_EQ(pattern_of("minimax_text_01", R"("attn_type_list": [0, 1, 0, 0])"), "LFLL");
  EXPECT_EQ(pattern_of("mimo_v2_flash", R"("hybrid_layer_pattern": [0, 1, 1, 0], "sliding_window": 64)"), "FSSF");
  EXPECT_EQ(pattern_of("bamba", R"("attn_layer_indices": [0, 3])"), "FLLF");
}

// Kimi-Linear counts layers from 1.
TEST(LayerPattern, KimiListsItsFullLayersFromOne) {
  const Model model = load_text(R"({"model_type": "kimi_linear", "num_hidden_layers": 4, "num_attention_heads": 8,
    "hidden_size": 128, "max_position_embeddings": 4096, "kv_lora_rank": 32, "qk_rope_head_dim": 8,
    "linear_attn_config": {"full_attn_layers": [4], "kda_layers": [1, 2, 3]}})");
  EXPECT_EQ(pattern(model), "LLLF");
  EXPECT_EQ(model.kv_bytes_per_token(), 80u);  // (32 + 8) * 2 B
}

TEST(LayerPattern, ClassWithUnlikeLayersMustListThem) {
  EXPECT_THAT(error_of(small("minimax_text_01", "")), HasSubstr("does not list its layers"));
  EXPECT_THAT(error_of(small("nemotron_h", "")), HasSubstr("does not list its layers"));
}

TEST(LayerPattern, ListsMustFitTheNumberOfLayers) {
  EXPECT_THAT(error_of(small("qwen3", R"("layer_types": ["full_attention"])")),
              HasSubstr("one element per layer (4), got 1"));
  EXPECT_THAT(error_of(small("nemotron_h", R"("hybrid_override_pattern": "M*")")),
              HasSubstr("one letter per layer (4)"));
  EXPECT_THAT(error_of(small("nemotron_h", R"("hybrid_override_pattern": "M*QE")")), HasSubstr("got 'Q'"));
  EXPECT_THAT(error_of(small("qwen3", R"("layer_types": ["full", "full", "full", "full"])")),
              HasSubstr("layer_types[0]"));
}

// A prediction layer may follow in the list; it is counted nowhere.
TEST(LayerPattern, ListMayRunOnOverPredictionLayers) {
  const std::string five = R"("attn_type_list": [0, 1, 0, 0, 1])";
  EXPECT_EQ(pattern_of("minimax_text_01", five + R"(, "num_nextn_predict_layers": 1)"), "LFLL");
  EXPECT_THAT(error_of(small("minimax_text_01", five)), HasSubstr("got 5"));
}

TEST(LayerPattern, SlidingLayersNeedAWindow) {
  const std::string list =
      R"("layer_types": ["sliding_attention", "full_attention", "full_attention", "full_attention"])";
  EXPECT_THAT(error_of(small("step3p7", list)), HasSubstr("sliding_window: missing"));
  EXPECT_THAT(error_of(small("qwen3", list + R"(, "sliding_window": 64, "use_sliding_window": false)")),
              HasSubstr("use_sliding_window"));
  EXPECT_EQ(pattern_of("step3p7", list + R"(, "sliding_window": 64)"), "SFFF");
}

TEST(LayerPattern, WindowOfAClassWithoutWindowsIsRefused) {
  EXPECT_THAT(error_of(small("llama", R"("sliding_window": 64)")), HasSubstr("sliding_window: which layers"));
  EXPECT_EQ(error_of(small("llama", R"("sliding_window": null)")), "");
}

// DeepSeek-V4: 2 layers of a window, entries of 512 * 2 B per 4 and 128 positions; 1,024 * (1/4 + 1/128) = 264 B a
// token. The finest ratio has an indexer.
TEST(LayerPattern, CompressRatiosGiveEntriesBesideAWindow) {
  const Model model = load_text(R"({"model_type": "deepseek_v4", "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 1, "head_dim": 512, "hidden_size": 128, "max_position_embeddings": 4096, "sliding_window": 128,
    "qk_rope_head_dim": 64, "index_head_dim": 128, "num_nextn_predict_layers": 1, "compress_ratios": [0, 4, 128, 0, 0]})");
  EXPECT_EQ(pattern(model), "SKKS");
  EXPECT_EQ(model.kv_bytes_per_token_growing(), 264u);
  EXPECT_EQ(window_cap_bytes(model.layers), 4u * 128 * 1024);
  EXPECT_EQ(model.layers[1].index_bytes, 256u);
  EXPECT_EQ(model.layers[2].index_bytes, 0u);
}

// Nemotron-NAS: 8 query heads, 4 a KV head -> 2 KV heads * 16 * 2 * 2 B = 128 B; a layer without attention stores nothing.
TEST(LayerPattern, BlockConfigsHaveHeadsOfTheirOwn) {
  const std::string block = R"({"attention": {"no_op": false, "n_heads_in_group": )";
  const Model model = load_text(R"({"model_type": "nemotron-nas", "num_hidden_layers": 3, "num_attention_heads": 8,
    "num_key_value_heads": null, "hidden_size": 128, "max_position_embeddings": 4096, "intermediate_size": null,
    "block_configs": [)" + block +
                                "4}}, " + block + R"(8}}, {"attention": {"no_op": true, "n_heads_in_group": null}}]})");
  EXPECT_EQ(pattern(model), "FF-");
  EXPECT_EQ(model.kv_bytes_per_token(), 128u + 64u);
}

TEST(LayerPattern, LastLayersMayShareAnEarlierCache) {
  EXPECT_EQ(pattern_of("gemma3n_text", R"("num_kv_shared_layers": 2, "sliding_window": 64)"), "SSRR");
}

// DeepSeek-V3.2 stores an indexer's key in every layer, GLM-5.2 in those that do not share another's.
TEST(LayerPattern, IndexerKeysAreCountedBesideTheCache) {
  const std::string latent = R"({"model_type": "glm_moe_dsa", "num_hidden_layers": 2, "num_attention_heads": 8,
    "hidden_size": 128, "max_position_embeddings": 4096, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "index_head_dim": 128)";
  const Model every = load_text(latent + "}");
  ASSERT_EQ(every.layers.size(), 1u);
  EXPECT_EQ(every.layers[0].index_bytes, 256u);
  EXPECT_EQ(every.kv_bytes_per_token(), 2u * 1152);
  const Model shared = load_text(latent + R"(, "indexer_types": ["full", "shared"]})");
  ASSERT_EQ(shared.layers.size(), 2u);
  EXPECT_EQ(shared.layers[1].index_bytes, 0u);
}

}  // namespace
}  // namespace kvtide

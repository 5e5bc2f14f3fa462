#include "model/config_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/testing/load_text.h"

namespace kvtide {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_support::error_of;
using testing_support::load_text;
using testing_support::small;

TEST(ConfigReader, UnknownClassIsRefusedWithTheNearest) {
  EXPECT_THAT(error_of(small("qwen33", "")), AllOf(HasSubstr("model_type"), HasSubstr("did you mean qwen3?")));
  EXPECT_THAT(error_of(R"({"architectures": ["XForCausalLM"], "num_hidden_layers": 2})"),
              HasSubstr("model_type: missing"));
}

TEST(ConfigReader, ImageModelWithoutItsTextPartIsRefused) {
  EXPECT_THAT(error_of(small("gemma3", "")), HasSubstr("needs a text_config"));
}

TEST(ConfigReader, NestedPartWithoutATypeTakesTheComposites) {
  const Model model = load_text(R"({"model_type": "qwen3_vl", "text_config": {"num_hidden_layers": 2,
    "num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 128, "max_position_embeddings": 4096},
    "vision_config": {"num_attention_heads": 16}})");
  EXPECT_EQ(model.model_type, "qwen3_vl_text");
  EXPECT_EQ(model.head_dim, 128);  // the class's, not 128 / 8
}

// A key that sounds like geometry is refused; one that does not is not ours.
TEST(ConfigReader, UnknownKeyIsRefusedWhenItMayChangeTheCache) {
  EXPECT_THAT(error_of(small("llama", R"("kv_cache_groups": 2)")), HasSubstr("kv_cache_groups: unknown key"));
  EXPECT_THAT(error_of(small("llama", R"("attention_stride": 2)")), HasSubstr("attention_stride: unknown key"));
  EXPECT_THAT(error_of(small("llama", R"("num_key_value_head": 2)")), HasSubstr("did you mean num_key_value_heads?"));
  EXPECT_EQ(error_of(small("llama", R"("my_favourite_colour": "red", "rms_norm_eps": 1e-5)")), "");
}

TEST(ConfigReader, TwoNamesOfAQuantityMustAgree) {
  EXPECT_EQ(error_of(small("llama", R"("n_layer": 4)")), "");
  EXPECT_THAT(error_of(small("llama", R"("n_layer": 5)")),
              HasSubstr("n_layer: says 5, while num_hidden_layers says 4"));
}

/// Falcon's attention without KV heads unless given.
std::string falcon(const std::string& type, const std::string& more) {
  return R"({"model_type": ")" + type + R"(", "n_layer": 1, "n_head": 8, "hidden_size": 128, )" + more + "}";
}

// 2 * heads * 16 * 2 B.
TEST(ConfigReader, FalconCountsItsHeadsOnlyInTheNewArchitecture) {
  EXPECT_EQ(load_text(falcon("falcon", R"("num_kv_heads": 4)")).kv_bytes_per_token(), 64u);
  EXPECT_EQ(load_text(falcon("falcon", R"("num_kv_heads": 4, "multi_query": false)")).kv_bytes_per_token(), 8u * 64);
  EXPECT_EQ(load_text(falcon("falcon", R"("num_kv_heads": 4, "new_decoder_architecture": true)")).kv_bytes_per_token(),
            4u * 64);
  EXPECT_EQ(load_text(falcon("RefinedWeb", R"("n_head_kv": 4)")).kv_bytes_per_token(), 4u * 64);
  EXPECT_THAT(error_of(falcon("RefinedWebModel", R"("alibi": false)")), HasSubstr("multi_query: missing"));
}

// MiMo-V2: full layers 2 heads of 24 + 16, sliding ones 4 heads of 24 + 16: 160 B and 320 B. Gemma 4: full layers have a
// head_dim and heads of their own.
TEST(ConfigReader, ShapesMayDifferByLayerType) {
  const Model mimo = load_text(R"({"model_type": "mimo_v2_flash", "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 2, "head_dim": 24, "v_head_dim": 16, "swa_num_key_value_heads": 4, "swa_head_dim": 24,
    "swa_v_head_dim": 16, "hidden_size": 128, "max_position_embeddings": 4096, "sliding_window": 64,
    "hybrid_layer_pattern": [0, 1]})");
  EXPECT_EQ(mimo.kv_bytes_per_token_growing(), 160u);
  EXPECT_EQ(mimo.kv_bytes_per_token(), 480u);
  const Model gemma = load_text(R"({"model_type": "gemma4_text", "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 16, "num_global_key_value_heads": 1, "global_head_dim": 32, "hidden_size": 128,
    "max_position_embeddings": 4096, "sliding_window": 64, "layer_types": ["sliding_attention", "full_attention"]})");
  EXPECT_EQ(gemma.kv_bytes_per_token_growing(), 2u * 32 * 2);
  EXPECT_EQ(gemma.kv_bytes_per_token(), 2u * 32 * 2 + 2u * 4 * 16 * 2);
}

TEST(ConfigReader, LatentClassNeedsItsRanks) {
  EXPECT_THAT(error_of(small("deepseek_v3", "")), AllOf(HasSubstr("kv_lora_rank"), HasSubstr("qk_rope_head_dim")));
}

TEST(ConfigReader, ExpertsUnderDifferentNamesMustAgree) {
  const std::string experts = R"("num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64)";
  EXPECT_EQ(load_text(small("mixtral", experts)).experts.num_layers, 4);
  EXPECT_THAT(error_of(small("mixtral", experts + R"(, "experts_per_token": 3)")),
              HasSubstr("expected 2 as elsewhere"));
  EXPECT_THAT(error_of(small("mixtral", R"("num_local_experts": 2, "num_experts_per_tok": 3)")),
              HasSubstr("3 experts of 2"));
}

// Qwen3-MoE: every second layer, without layer 3.
TEST(ConfigReader, LayersWithExpertsFollowStepAndExceptions) {
  const std::string experts = R"("num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64)";
  EXPECT_EQ(load_text(small("qwen3_moe", experts + R"(, "decoder_sparse_step": 2)")).experts.num_layers, 2);
  EXPECT_EQ(load_text(small("qwen3_moe", experts + R"(, "decoder_sparse_step": 2, "mlp_only_layers": [3])"))
                .experts.num_layers,
            1);
  EXPECT_EQ(
      load_text(small("glm4_moe", R"("n_routed_experts": 4, "num_experts_per_tok": 2, "first_k_dense_replace": 3)"))
          .experts.num_layers,
      1);
}

// Mistyped and hostile files: one error, no crash.
TEST(ConfigReader, WrongTypesAreErrors) {
  for (const char* text :
       {"[]", "3", "", "{\"text_config\": 3}", "{\"text_config\": []}", "{\"model_type\": []}",
        "{\"model_type\": \"gpt2\"}",
        R"({"model_type": "llama", "num_hidden_layers": {}, "num_attention_heads": [], "hidden_size": null})",
        R"({"model_type": "nemotron_h", "hybrid_override_pattern": "", "num_attention_heads": 1, "hidden_size": 1})"}) {
    EXPECT_NE(error_of(text), "") << text;
  }
  for (const char* entry :
       {R"("layer_types": 3)", R"("layer_types": {})", R"("rope_scaling": 3)", R"("rope_scaling": {"rope_type": []})",
        R"("quantization_config": 3)", R"("kv_cache_scheme": [])", R"("block_configs": [1, 2, 3, 4])",
        R"("compress_ratios": [0, -1, 0, 0])", R"("hybrid_override_pattern": {})", R"("linear_attn_config": 3)",
        R"("sparse_attention_config": 3)", R"("num_kv_shared_layers": 4)",
        R"("moe_layer_freq": [2], "num_experts": 2)"}) {
    EXPECT_NE(error_of(small("qwen3", entry)), "") << entry;
  }
}

}  // namespace
}  // namespace kvtide

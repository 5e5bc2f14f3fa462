#include "model/weight_storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/testing/load_text.h"

namespace kvtide {
namespace {

using testing::HasSubstr;
using testing_support::load_text;
using testing_support::small;

PublishedWeights published(const std::string& quantization) {
  return load_text(small("llama", R"("quantization_config": )" + quantization)).published_weights;
}

WeightFormat format_of(const std::string& quantization) {
  const PublishedWeights weights = published(quantization);
  EXPECT_TRUE(weights.storage) << quantization;
  return weights.storage.value_or(WeightStorage{}).format;
}

TEST(WeightStorage, WithoutAQuantizationThereAreSixteenBits) {
  const PublishedWeights weights = load_text(small("llama", "")).published_weights;
  EXPECT_EQ(weights.storage, WeightStorage{});
  EXPECT_EQ(weights.name, "16 bit");
}

// As the quantizers write them: transformers' fp8, AutoAWQ, GPTQModel, ModelOpt, gpt-oss.
TEST(WeightStorage, MethodOfACheckpointIsItsFormat) {
  EXPECT_EQ(format_of(R"({"quant_method": "fp8", "weight_block_size": [128, 128]})"), WeightFormat::fp8_block);
  EXPECT_EQ(format_of(R"({"quant_method": "fp8", "activation_scheme": "static"})"), WeightFormat::fp8);
  EXPECT_EQ(format_of(R"({"quant_method": "fbgemm_fp8"})"), WeightFormat::fp8);
  EXPECT_EQ(format_of(R"({"quant_method": "awq", "bits": 4, "group_size": 128})"), WeightFormat::w4a16);
  EXPECT_EQ(format_of(R"({"quant_method": "gptq", "bits": 8})"), WeightFormat::w8a16);
  EXPECT_EQ(format_of(R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})"), WeightFormat::nvfp4);
  EXPECT_EQ(format_of(R"({"quant_method": "modelopt", "quant_algo": "FP8"})"), WeightFormat::fp8);
  EXPECT_EQ(format_of(R"({"quant_method": "mxfp4"})"), WeightFormat::mxfp4);
}

TEST(WeightStorage, CompressedTensorsSayWhatTheirGroupHas) {
  const auto group = [](const std::string& weights, const std::string& inputs) {
    return format_of(R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": )" + weights +
                     R"(, "input_activations": )" + inputs + "}}}");
  };
  EXPECT_EQ(group(R"({"num_bits": 8, "type": "float", "strategy": "channel"})", R"({"num_bits": 8})"),
            WeightFormat::fp8);
  EXPECT_EQ(group(R"({"num_bits": 8, "type": "float", "strategy": "block"})", R"({"num_bits": 8})"),
            WeightFormat::fp8_block);
  EXPECT_EQ(group(R"({"num_bits": 8, "type": "int"})", R"({"num_bits": 8})"), WeightFormat::w8a8);
  EXPECT_EQ(group(R"({"num_bits": 8, "type": "int"})", "null"), WeightFormat::w8a16);
  EXPECT_EQ(group(R"({"num_bits": 4, "type": "int"})", "null"), WeightFormat::w4a16);
  EXPECT_EQ(group(R"({"num_bits": 4, "type": "float", "group_size": 16})", R"({"num_bits": 4})"), WeightFormat::nvfp4);
  EXPECT_EQ(group(R"({"num_bits": 4, "type": "float", "group_size": 32})", "null"), WeightFormat::mxfp4);
}

TEST(WeightStorage, WhatIsNotUnderstoodKeepsItsWordAndIsNotRun) {
  for (const char* quantization :
       {R"({"quant_method": "gptq", "bits": 3})", R"({"quant_method": "bitsandbytes"})", R"({"bits": 4})",
        R"({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 4, "type": "int"},
            "input_activations": {"num_bits": 8}}}})",
        R"({"quant_method": "compressed-tensors"})",
        R"({"quant_method": "compressed-tensors", "config_groups": {}})"}) {
    EXPECT_EQ(published(quantization).storage, std::nullopt) << quantization;
  }
  EXPECT_EQ(published(R"({"quant_method": "BitsAndBytes"})").name, "bitsandbytes");
  EXPECT_THAT(load_text(small("llama", R"("quantization_config": {"quant_method": "hqq"})")).unsupported_reason(),
              HasSubstr("not known here (hqq)"));
}

TEST(WeightStorage, ModulesThatAreLeftOutMayBeThoseOfAttention) {
  const auto keeps = [](const std::string& modules) {
    return published(R"({"quant_method": "fp8", "modules_to_not_convert": )" + modules + "}").storage->keeps_attention;
  };
  EXPECT_TRUE(keeps(R"(["lm_head", "model.layers.*.self_attn"])"));
  EXPECT_FALSE(keeps(R"(["lm_head", "gate"])"));
  EXPECT_TRUE(keeps(R"(["re:.*self_attn.*"])"));
  // Of 4 layers three are most and two are not; what sees or predicts is no layer of the language model, nor is the fifth.
  EXPECT_TRUE(keeps(R"(["model.layers.0.self_attn.*", "model.layers.1.self_attn.*", "model.layers.3.self_attn.*"])"));
  EXPECT_FALSE(keeps(R"(["model.layers.0.self_attn.*", "model.layers.1.self_attn.*", "model.layers.4.self_attn.*"])"));
  EXPECT_FALSE(keeps(R"(["vision_tower.vision_model.encoder.self_attn.q_proj", "mtp.self_attn"])"));
  EXPECT_FALSE(keeps("null"));
}

TEST(WeightStorage, WordsOfServingStacksMeanAFormat) {
  EXPECT_EQ(weight_format_of_word("gptq_marlin"), WeightFormat::w4a16);
  EXPECT_EQ(weight_format_of_word("GPTQ-Int8"), WeightFormat::w8a16);
  EXPECT_EQ(weight_format_of_word("modelopt_fp4"), WeightFormat::nvfp4);
  EXPECT_EQ(weight_format_of_word("FP8_BLOCK_SCALES"), WeightFormat::fp8_block);
  EXPECT_EQ(weight_format_of_word("w8a8_fp8"), WeightFormat::fp8);
  EXPECT_EQ(weight_format_of_word("W8A8_INT8"), WeightFormat::w8a8);
  EXPECT_EQ(weight_format_of_word("gptq-3bit"), std::nullopt);
  EXPECT_EQ(weight_format_of_word("W4A16_MXFP4"), WeightFormat::mxfp4);
  EXPECT_EQ(weight_format_of_word("mxfp8"), std::nullopt);
  EXPECT_EQ(weight_format_of_word("q4_k_m"), std::nullopt);
  EXPECT_EQ(weight_format_of_word(""), std::nullopt);
  for (const std::string& name : weight_format_names()) EXPECT_EQ(to_string(*weight_format(name)), name);
}

// 4 layers: projections 128 x (128 + 32 + 32 + 128) = 40,960, MLP 3 x 128 x 256 = 98,304; embedding and output layer
// 2 x 100 x 128, norms 9 x 128: 557,056 narrow of 583,808.
TEST(WeightStorage, LinearLayersAreNarrowAndTheRestHasTwoBytes) {
  const Model model = load_text(small("llama", ""));
  EXPECT_EQ(model.weight_bytes(), 2u * 583808);
  EXPECT_EQ(model.weight_bytes({.format = WeightFormat::fp8}), 557056u + 2 * 26752);
  // A 16-bit scale and a 4-bit zero for 128: 557,056 / 2 + 557,056 x 2.5 / 128 = 289,408.
  EXPECT_EQ(model.weight_bytes({.format = WeightFormat::w4a16}), 289408u + 2 * 26752);
  EXPECT_EQ(model.weight_bytes({.format = WeightFormat::nvfp4}), 557056u * 9 / 16 + 2 * 26752);
  EXPECT_EQ(model.weight_bytes({.format = WeightFormat::fp8, .keeps_attention = true}),
            4u * 98304 + 2 * (583808 - 4 * 98304));
}

// Kimi-K2-Thinking's way: int4 in symmetric groups of 32, 4.5 bits a weight. AWQ's zero points make 4.625 of groups of 32, 4.15625 of 128.
TEST(WeightStorage, SmallGroupsOfInt4HaveMoreScales) {
  const auto bytes = [](const std::string& quantization) { return bytes_per_weight(*published(quantization).storage); };
  EXPECT_EQ(bytes(R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights":
                     {"num_bits": 4, "type": "int", "group_size": 32, "symmetric": true}}}})"),
            4.5 / 8);
  EXPECT_EQ(bytes(R"({"quant_method": "awq", "bits": 4, "group_size": 32})"), 4.625 / 8);
  EXPECT_EQ(bytes(R"({"quant_method": "gptq", "bits": 4})"), 4.15625 / 8);
  EXPECT_EQ(bytes(R"({"quant_method": "gptq", "bits": 4, "group_size": -1})"), 4.15625 / 8);
  EXPECT_EQ(to_string(*published(R"({"quant_method": "awq", "bits": 4, "group_size": 32})").storage),
            "w4a16, groups of 32");
}

TEST(WeightStorage, AWordThatIsNotUnderstoodIsShownWithoutControls) {
  EXPECT_EQ(published(R"({"quant_method": "a\u001b[31mb"})").name, "a[31mb");
  EXPECT_EQ(published("{\"quant_method\": \"" + std::string(1000, 'x') + "\"}").name, std::string(40, 'x') + "...");
}

TEST(WeightStorage, Mxfp4LeavesAttentionBesideExperts) {
  EXPECT_FALSE(load_text(small("llama", "")).stored_in(WeightFormat::mxfp4).keeps_attention);
  const Model experts = load_text(small("mixtral", R"("num_local_experts": 4, "num_experts_per_tok": 2)"));
  EXPECT_TRUE(experts.stored_in(WeightFormat::mxfp4).keeps_attention);
  EXPECT_FALSE(experts.stored_in(WeightFormat::fp8).keeps_attention);
}

}  // namespace
}  // namespace kvtide

#include "model/model_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/yaml_value.h"
#include "model/testing/load_text.h"

namespace kvtide {
namespace {

using testing_support::load_text;
using testing_support::small;

// gemma2 slides in even layers: 2 * 2 heads * 16 * 2 B = 128 B a layer, two of four growing.
TEST(ModelJson, ReadsBackWithTheContractsKeys) {
  const std::string text = model_json(load_text(small("gemma2", R"("sliding_window": 64)")));
  const config::Document document = config::Document::parse(text, "model.json");
  const config::Value root = document.root();
  EXPECT_EQ(root.integer("kv_bytes_per_token"), 512);
  EXPECT_EQ(root.integer("kv_bytes_per_token_growing"), 256);
  const auto layers = root.at("layers").items();
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].string("kind"), "sliding_attention");
  EXPECT_EQ(layers[0].integer("count"), 2);
  EXPECT_EQ(layers[0].integer("k_bytes"), 64);
  EXPECT_EQ(layers[0].integer("v_bytes"), 64);
  EXPECT_EQ(layers[0].integer("window"), 64);
  EXPECT_TRUE(layers[1].at("window").is_null());
  EXPECT_TRUE(root.at("unsupported_reason").is_null());
  document.throw_if_errors();
}

TEST(ModelJson, WhatIsNotCountedIsNull) {
  const std::string text = model_json(load_text(small("olmo2", "")));
  EXPECT_THAT(text, testing::HasSubstr("\"num_parameters\": null"));
  EXPECT_THAT(text, testing::HasSubstr("\"weight_bytes\": null"));
}

// 557,056 weights of a byte and 26,752 of two (weight_storage_test.cc); in a format that is not known nobody can tell.
TEST(ModelJson, WeightsAreThoseOfTheCheckpoint) {
  const auto json = [](const char* method) {
    return model_json(
        load_text(small("llama", std::string(R"("quantization_config": {"quant_method": ")") + method + "\"}")));
  };
  EXPECT_THAT(json("fp8"), testing::HasSubstr("\"weight_bytes\": 610560"));
  EXPECT_THAT(json("hqq"), testing::HasSubstr("\"weight_bytes\": null"));
}

}  // namespace
}  // namespace kvtide

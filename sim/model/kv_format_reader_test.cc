#include "model/kv_format_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "model/testing/load_text.h"

namespace kvtide {
namespace {

using testing::HasSubstr;
using testing_support::error_of;
using testing_support::load_text;
using testing_support::small;

// 4 layers * 2 * 2 heads * 16 = 256 values a token.
TEST(KvFormat, WordObjectAndNullAreRead) {
  const auto stored = [](const std::string& more) {
    return load_text(small("llama", more)).kv_bytes_per_token_stored();
  };
  EXPECT_EQ(stored(""), 512u);
  EXPECT_EQ(stored(R"("quantization_config": {"quant_method": "fp8"})"), 512u);
  EXPECT_EQ(stored(R"("quantization_config": {"kv_cache_scheme": null})"), 512u);
  EXPECT_EQ(stored(R"("quantization_config": {"kv_cache_scheme": "FP8"})"), 256u);
  EXPECT_EQ(stored(R"("quantization_config": {"kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": false}})"),
            256u);
  EXPECT_EQ(stored(R"("quantization_config": {"kv_cache_scheme": {"num_bits": 8, "type": "int"}})"), 256u);
  EXPECT_EQ(stored(R"("kv_cache_scheme": "fp8_e4m3")"), 256u);
  EXPECT_EQ(stored(R"("quantization_config": {"kv_cache_quant_algo": "NVFP4"})"), 144u);  // 256 / 16 groups of 9 B
}

TEST(KvFormat, UnknownFormatsAreRefusedByName) {
  EXPECT_THAT(error_of(small("llama", R"("kv_cache_scheme": "FP3")")), HasSubstr("kv_cache_scheme: expected FP8"));
  EXPECT_THAT(error_of(small("llama", R"("quantization_config": {"kv_cache_scheme": {"num_bits": 4, "type": "int"}})")),
              HasSubstr("4 bits as int"));
  EXPECT_THAT(error_of(small("llama", R"("quantization_config": {"kv_cache_bits": 4})")), HasSubstr("kv_cache_bits"));
}

TEST(KvFormat, TwoStatementsMustAgree) {
  const std::string top = R"("kv_cache_scheme": "FP8", "quantization_config": {"kv_cache_quant_algo": )";
  EXPECT_EQ(error_of(small("llama", top + R"("FP8"})")), "");
  EXPECT_THAT(error_of(small("llama", top + R"("NVFP4"})")), HasSubstr("nvfp4"));
}

TEST(KvFormat, SeparateFileBesideTheConfigurationIsRead) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "model_with_quant_file";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << small("llama", "");
  std::ofstream(folder / "hf_quant_config.json")
      << R"({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}})";
  const Model model = load_model((folder / "config.json").string());
  EXPECT_EQ(model.kv_format.name, "fp8");
  EXPECT_EQ(model.published_weights.name, "nvfp4");
  EXPECT_EQ(model.kv_bytes_per_token_stored(), 256u);
  std::ofstream(folder / "hf_quant_config.json") << "[";
  EXPECT_THROW((void)load_model((folder / "config.json").string()), InputError);
}

}  // namespace
}  // namespace kvtide

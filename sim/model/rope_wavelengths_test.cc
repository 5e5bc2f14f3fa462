#include "model/rope_wavelengths.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <numbers>

#include "base/error.h"
#include "model/model.h"

namespace kvtide {
namespace {

Rope plain(double theta, std::int64_t rotary_dim) {
  return {.theta = theta, .rotary_dim = rotary_dim, .scaling = {}};
}

// theta 1e4, d 128: a quarter of the spectrum turns in 2 pi 10,000^(1/4) = 20 pi; the last pair in 2 pi 10,000^(63/64).
TEST(RopeWavelengths, ArePowersOfTheBase) {
  const std::vector<double> wavelengths = rope_wavelengths(plain(1e4, 128), 4096);
  ASSERT_EQ(wavelengths.size(), 64U);
  EXPECT_NEAR(wavelengths[0], 2 * std::numbers::pi, 1e-12);
  EXPECT_NEAR(wavelengths[16], 20 * std::numbers::pi, 1e-10);
  EXPECT_NEAR(wavelengths[63], 2 * std::numbers::pi * std::pow(1e4, 63.0 / 64), 1e-6);
  EXPECT_TRUE(rope_wavelengths(plain(0, 128), 4096).empty());
  EXPECT_TRUE(rope_wavelengths(plain(1e4, 0), 4096).empty());
}

// Gemma 3's full layers: everything eight times as long, so the shortest is 16 pi.
TEST(RopeWavelengths, LinearScalingStretchesAll) {
  Rope rope = plain(1e6, 256);
  rope.scaling.type = "linear";
  rope.scaling.factor = 8;
  EXPECT_NEAR(rope_wavelengths(rope, 8192).front(), 16 * std::numbers::pi, 1e-12);
}

// Llama 3.1: 8, 1, 4, 8192: below 2,048 untouched, above 8,192 eight times as long; between, at wavelength 4,096:
// s = (2 - 1) / 3, 4,096 / (1/3 + (2/3) / 8) = 9,830.4.
TEST(RopeWavelengths, Llama3LeavesShortWavesAlone) {
  Rope rope = plain(1, 2);
  rope.scaling = {.type = "llama3",
                  .factor = 8,
                  .original_positions = 8192,
                  .low_freq_factor = 1,
                  .high_freq_factor = 4,
                  .short_factor = {},
                  .long_factor = {}};
  rope.rotary_dim = 4;
  const auto second = [&](double wavelength) {
    rope.theta = std::pow(wavelength / (2 * std::numbers::pi), 2);  // pair 1 of 2: theta^(2/4)
    return rope_wavelengths(rope, 131072)[1];
  };
  EXPECT_NEAR(second(2047), 2047, 1e-6);
  EXPECT_NEAR(second(4096), 9830.4, 1e-6);
  EXPECT_NEAR(second(8200), 65600, 1e-6);
}

TEST(RopeWavelengths, DynamicDependsOnTheLength) {
  Rope rope = plain(1e4, 128);
  rope.scaling.type = "dynamic";
  rope.scaling.factor = 2;
  EXPECT_NEAR(rope_wavelengths(rope, 4096, 2048)[1], rope_wavelengths(plain(1e4, 128), 4096)[1], 1e-9);
  // Twice the trained length: theta (2 * 2 - 1)^(128/126).
  const double theta = 1e4 * std::pow(3.0, 128.0 / 126);
  EXPECT_NEAR(rope_wavelengths(rope, 4096, 8192)[63], 2 * std::numbers::pi * std::pow(theta, 126.0 / 128), 1e-6);
  EXPECT_THROW((void)rope_wavelengths(rope, 0, 8192), InputError);
}

TEST(RopeWavelengths, LongropeChangesListBeyondTheTrainedLength) {
  Rope rope = plain(1e4, 4);
  rope.scaling = {.type = "longrope", .original_positions = 4096, .short_factor = {1, 1.5}, .long_factor = {2, 3}};
  EXPECT_NEAR(rope_wavelengths(rope, 131072, 4096)[1], 1.5 * 200 * std::numbers::pi, 1e-9);
  EXPECT_NEAR(rope_wavelengths(rope, 131072, 4097)[1], 3 * 200 * std::numbers::pi, 1e-9);
}

TEST(RopeWavelengths, UnknownScalingIsRefused) {
  Rope rope = plain(1e4, 128);
  rope.scaling.type = "proportional";
  EXPECT_THROW((void)rope_wavelengths(rope, 4096), InputError);
}

// GPT-OSS: 0.1 ln 32 + 1 = 1.3466. DeepSeek-V3 gives both mscales, equal: 1.
TEST(RopeAmplitude, IsYarnsUnlessBothMscalesCancel) {
  Rope rope = plain(150000, 64);
  rope.scaling = {.type = "yarn",
                  .factor = 32,
                  .original_positions = 4096,
                  .beta_fast = 32,
                  .beta_slow = 1,
                  .short_factor = {},
                  .long_factor = {}};
  EXPECT_NEAR(rope_amplitude(rope, 131072), 1.3466, 5e-5);
  rope.scaling.mscale = rope.scaling.mscale_all_dim = 1;
  EXPECT_EQ(rope_amplitude(rope, 131072), 1);
  EXPECT_EQ(rope_amplitude(plain(1e4, 128), 4096), 1);
}

// Every wavelength of the shipped models against a table computed independently of this code (implementations checked against
// transformers to 4e-16).
TEST(RopeWavelengths, ShippedModelsMatchTheTable) {
  const std::string path = std::string(KVTIDE_SOURCE_DIR) + "/../shared/data/rope-wavelengths.csv";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "the table of wavelengths (../shared/data) is not at hand";
  std::ifstream file(path);
  std::map<std::string, std::vector<double>> table;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line))
    table[line.substr(0, line.find(','))].push_back(std::stod(line.substr(line.rfind(',') + 1)));
  ASSERT_EQ(table.size(), 17U);
  struct Case {
    const char* set;
    const char* model;
    bool is_sliding;
  };
  for (const Case& one : {Case{"A", "llama-2-7b", false},
                          {"A", "mistral-7b-v0.1", false},
                          {"A2", "gemma-2-9b", false},
                          {"A2", "gemma-3-4b", true},
                          {"A3", "falcon-7b", false},
                          {"A4", "phi-3-mini-4k", false},
                          {"B", "llama-3-8b", false},
                          {"B2", "llama-3.1-8b", false},
                          {"C", "qwen3-8b", false},
                          {"C2", "gemma-3-12b", false},
                          {"C3", "glm-4.5", false},
                          {"D", "smollm2-135m", false},
                          {"E", "phi-4", false},
                          {"F", "minimax-m2.5", false},
                          {"G", "deepseek-v3", false},
                          {"H", "kimi-k2", false},
                          {"I", "gpt-oss-20b", false},
                          {"K", "yi-34b", false},
                          {"J", "command-r-v01", false}}) {
    const Model model = load_model(one.model);
    const std::vector<double> found =
        rope_wavelengths(one.is_sliding ? model.sliding_rope : model.rope, model.max_positions);
    const std::vector<double>& expected = table.at(one.set);
    ASSERT_EQ(found.size(), expected.size()) << one.model;
    for (std::size_t pair = 0; pair < found.size(); ++pair) {
      ASSERT_NEAR(found[pair] / expected[pair], 1, 1e-6)
          << one.model << " pair " << pair;  // the table has seven digits
    }
  }
}

}  // namespace
}  // namespace kvtide

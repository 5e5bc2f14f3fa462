#include "experiment/catalogue.h"

#include <gtest/gtest.h>

#include <fstream>

#include "experiment/experiment.h"

namespace kvtide::experiment {
namespace {

CatalogueEntry entry_of(const std::string& preset) {
  return catalogue_entry(find_preset(preset), "llama-3.1-8b", 32768);
}

// Llama-3.1-8B: 32 layers, 8 KV heads, 128 channels: 65,536 elements a token, 131,072 B in fp16; 32,768 tokens are whole
// pages of 16. fp8: half. q8_0: 8.5 bits. nvfp4: 4.5. TurboQuant 4: 66 + 68 B for 512 B. KIVI int2 at a length divisible by
// 128: all keys at 3 bits, values but the newest 128 at 3 bits: (3 + 3 + 13 * 128 / 32768) / 32.
TEST(Catalogue, BytesATokenAreThoseOfTheFormats) {
  EXPECT_EQ(entry_of("fp8").full_bytes_per_token, 131072);
  EXPECT_EQ(entry_of("fp8").bytes_per_token, 65536);
  EXPECT_EQ(entry_of("q8_0").bytes_per_token, 65536 * 8.5 / 8);
  EXPECT_EQ(entry_of("nvfp4").bytes_per_token, 65536 * 4.5 / 8);
  EXPECT_EQ(entry_of("turboquant-4").bytes_per_token, 32 * 8 * 134);
  EXPECT_DOUBLE_EQ(entry_of("kivi-int2").bytes_per_token, 131072 * (3 + 3 + 13 * 128.0 / 32768) / 32);
}

// Every element of K and V is converted once a step: 65,536 a token; fp8 at half of the work.
TEST(Catalogue, DecodeConvertsEveryStoredElement) {
  EXPECT_EQ(entry_of("nvfp4").converted_per_token, 65536);
  EXPECT_EQ(entry_of("fp8").converted_per_token, 32768);
  EXPECT_EQ(entry_of("fp8").rebuild_macs_per_token, 0);
}

// CLA-2 stores 16 of 32 layers. YOCO one layer of 32,768 tokens and 16 windows of 1,024, a layer and token being 4,096 B.
// MiniCache 16 layers and 8 pairs, and of each of 16 layers and 8 heads 4 B a token and 1,639 tokens of 512 + 4 B.
TEST(Catalogue, SharedLayersAreStoredOnce) {
  EXPECT_EQ(entry_of("cla-2").bytes_per_token, 65536);
  EXPECT_EQ(entry_of("yoco").bytes_per_token, 4096 * (32768.0 + 16 * 1024) / 32768);
  EXPECT_EQ(entry_of("minicache").bytes_per_token, 24 * 4096 + 16 * 8 * (4 + 1639 * 516.0 / 32768));
}

TEST(Catalogue, PrintedTableIsCurrent) {
  std::ifstream file(KVTIDE_SOURCE_DIR "/docs/catalogue.md");
  const std::string stored(std::istreambuf_iterator<char>(file), {});
  EXPECT_TRUE(stored == catalogue_markdown()) << "run: kvtide show policies --markdown > docs/catalogue.md";
}

TEST(Catalogue, SweepHoldsEveryPreset) {
  const Experiment sweep = load_experiment(KVTIDE_SOURCE_DIR "/experiments/catalogue.yaml", {});
  ASSERT_EQ(sweep.axes.size(), 1u);
  std::vector<std::string> expected{"none"};
  for (const Preset& preset : presets()) expected.push_back(preset.name);
  EXPECT_EQ(sweep.axes.front().labels, expected) << "experiments/catalogue.yaml lists the presets by name";
}

}  // namespace
}  // namespace kvtide::experiment

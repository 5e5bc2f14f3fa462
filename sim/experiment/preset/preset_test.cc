#include "experiment/preset/preset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "experiment/setting_reader.h"
#include "kv/compression/compression.h"

namespace kvtide::experiment {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Expansion {
  Setting setting;
  std::vector<std::string> errors;
};

Expansion expanded(const std::string& compression) {
  config::Document document = config::Document::parse(
      "model: llama-3.1-8b\ngpu: h100-sxm\ntrace: {synthetic: {kind: uniform, tokens: 256}}\ncompression: " +
          compression + "\n",
      "test.yaml");
  expand_preset(document);
  NameResolver resolver("");
  Expansion result;
  const config::Value root = document.root();
  result.setting = read_setting(root, resolver);
  root.finish();
  result.errors = document.errors();
  return result;
}

TEST(Preset, EveryPresetReadsWithoutAnError) {
  for (const Preset& preset : presets()) {
    EXPECT_THAT(expanded("{preset: " + preset.name + "}").errors, IsEmpty()) << preset.name;
    EXPECT_FALSE(preset.summary.empty()) << preset.name;
  }
}

TEST(Preset, NamesAndAliasesAreUnique) {
  std::set<std::string> names;
  for (const Preset& preset : presets()) {
    std::set<std::string> own{preset_key(preset.name)};
    for (const std::string& alias : preset.aliases) own.insert(preset_key(alias));
    for (const std::string& name : own) EXPECT_TRUE(names.insert(name).second) << name;
  }
}

TEST(Preset, IsTheMappingItPrints) {
  const Expansion named = expanded("{preset: kivi-int2}");
  const Expansion written = expanded(
      "{block_size: 32, protect: {sinks: 0, window: 0}, stages: [{quantize: {format: int2, group: 32, k_axis: channel, "
      "v_axis: token, residual: 128}}]}");
  EXPECT_EQ(named.setting.compression, written.setting.compression);
}

TEST(Preset, NameAloneAndAliasesMeanTheSame) {
  const kv::Compression expected = expanded("{preset: kivi-int2}").setting.compression;
  EXPECT_EQ(expanded("kivi-int2").setting.compression, expected);
  EXPECT_EQ(expanded("KIVI").setting.compression, expected);
  EXPECT_EQ(expanded("{preset: Kivi_Int2}").setting.compression, expected);
}

TEST(Preset, KeysBesideItReplaceItsParts) {
  const Expansion changed = expanded("{preset: h2o, keep_ratio: 0.25, protect: {window: 32}, block_size: 16}");
  ASSERT_THAT(changed.errors, IsEmpty());
  EXPECT_EQ(changed.setting.compression.block_size, 16);
  EXPECT_EQ(changed.setting.compression.window, 32);
  EXPECT_EQ(changed.setting.compression.sinks, 0);  // the preset's own
  EXPECT_EQ(std::get<kv::Evict>(changed.setting.compression.stages.at(0)).keep, 250000);
}

TEST(Preset, MistakesAreNamed) {
  ASSERT_FALSE(expanded("{preset: kivy-int2}").errors.empty());
  EXPECT_THAT(expanded("{preset: kivy-int2}").errors.front(), HasSubstr("did you mean kivi-int2"));
  EXPECT_THAT(expanded("{preset: fp8, keep_ratio: 0.5}").errors.front(), HasSubstr("evicts nothing"));
  EXPECT_FALSE(expanded("{preset: fp8, blok_size: 3}").errors.empty());
}

}  // namespace
}  // namespace kvtide::experiment

#include "experiment/preset/preset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/data_directory.h"
#include "base/error.h"

namespace kvtide::experiment {
namespace {

using config::Document;
using config::Value;

std::vector<Preset> all_presets() {
  std::vector<Preset> table;
  for (const auto& family : {quantizing_presets(), evicting_presets(), reducing_presets()}) {
    table.insert(table.end(), family.begin(), family.end());
  }
  std::ranges::sort(table, {}, &Preset::name);
  return table;
}

/// The user's `given` over the preset's value at `path`.
void override_with(Document& preset, const std::string& path, const Value& given) {
  if (given.is_map()) {
    for (const std::string& key : given.keys()) override_with(preset, fmt::format("{}.{}", path, key), given.at(key));
  } else {
    preset.set(path, given);
  }
}

/// Keys of an evict stage that may stand beside `preset`.
constexpr std::array kEvictKeys{"keep_ratio", "heads_file", "share", "beta"};

/// @return false when no stage evicts
bool set_of_evict(Document& preset, const std::string& key, const Value& value) {
  bool found = false;
  std::size_t index = 0;
  for (const Value& stage : preset.root().at("stages").items()) {
    if (stage.is_map() && stage.at("evict").exists()) {
      preset.set(fmt::format("stages[{}].evict.{}", index, key), value);
      found = true;
    }
    ++index;
  }
  return found;
}

/// The preset with what else the user's mapping says.
Document expanded(const Preset& preset, const Value& compression) {
  Document document = Document::parse(preset.yaml, fmt::format("preset {}", preset.name));
  if (!compression.is_map()) return document;
  for (const std::string& key : compression.keys()) {
    if (key == "preset") continue;
    const Value given = compression.at(key);
    if (std::ranges::find(kEvictKeys, key) == kEvictKeys.end()) {
      override_with(document, key, given);
    } else if (!set_of_evict(document, key, given)) {
      given.error(fmt::format("preset {} evicts nothing, so there is no {} to set", preset.name, key));
    }
  }
  return document;
}

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> table = all_presets();
  return table;
}

std::string preset_key(std::string_view name) {
  std::string key;
  for (const char c : name) {
    key += c == '_' || c == ' ' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return key;
}

const Preset& find_preset(const std::string& name) {
  const std::string key = preset_key(name);
  std::vector<std::string> known;
  std::vector<std::string> names;
  for (const Preset& preset : presets()) {
    names.push_back(preset.name);
    known.push_back(preset_key(preset.name));
    for (const std::string& alias : preset.aliases) known.push_back(preset_key(alias));
    if (std::ranges::find(known, key) != known.end()) return preset;
  }
  const std::string nearest = nearest_name(key, known);
  throw InputError(fmt::format("unknown preset \"{}\"{} (known: {})", name,
                               nearest.empty() ? "" : ", did you mean " + nearest + "?", fmt::join(names, ", ")));
}

void expand_preset(Document& document) {
  const Value compression = document.root().at("compression");
  const bool is_name = compression.is_scalar() && compression.text() != "none";
  if (!is_name && !(compression.is_map() && compression.at("preset").exists())) return;
  const Value name = is_name ? compression : compression.at("preset");
  try {
    document.set("compression", expanded(find_preset(name.as_string("")), compression).root());
  } catch (const InputError& error) {
    name.error(error.what());
    document.set("compression", "none");
  }
}

}  // namespace kvtide::experiment

#pragma once
// Published compression methods by name: each is a composition of the stages that everybody can write, never code of its
// own. `compression: {preset: kivi-int2}` stands for the mapping that the table holds.
//
// Beside `preset` any key of a compression may be given and replaces that part of the preset:
//   compression: {preset: snapkv, keep_ratio: 0.25, protect: {window: 32}}
// `keep_ratio`, `heads_file`, `share` and `beta` go to every evict stage; other mappings are merged key by key, lists are replaced whole.

#include <string>
#include <string_view>
#include <vector>

#include "config/yaml_value.h"

namespace kvtide::experiment {

struct Preset {
  std::string name;
  std::vector<std::string> aliases;  ///< other names that people type
  std::string family;                ///< quantize, evict, select, merge, low rank, heads, layers
  std::string summary;
  std::string paper;    ///< empty: a format or a serving stack's option
  std::string differs;  ///< what the composition leaves out of the published method; empty: nothing known
  std::string yaml;     ///< the mapping below `compression:`
};

/// Sorted by name.
[[nodiscard]] const std::vector<Preset>& presets();
/// By name or alias; capitals, blanks and underscores do not matter. @throws InputError naming the nearest
[[nodiscard]] const Preset& find_preset(const std::string& name);
/// "KIVI_int2" -> "kivi-int2"
[[nodiscard]] std::string preset_key(std::string_view name);

/// Replaces `compression: NAME` and `compression: {preset: NAME, ...}` by what they stand for. Errors are recorded in the
/// document.
void expand_preset(config::Document& document);

// One per family, called by presets().
[[nodiscard]] std::vector<Preset> quantizing_presets();
[[nodiscard]] std::vector<Preset> evicting_presets();
[[nodiscard]] std::vector<Preset> reducing_presets();

}  // namespace kvtide::experiment

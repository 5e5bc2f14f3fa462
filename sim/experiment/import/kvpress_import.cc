// NVIDIA kvpress: presses in Python, or its evaluation's press_name and compression_ratio. compression_ratio is the fraction
// REMOVED; this is the only place that reads it. Presses composed one after another multiply what they keep.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/error.h"
#include "experiment/import/imported.h"
#include "experiment/import/stack_text.h"
#include "experiment/preset/preset.h"

namespace kvtide::experiment {
namespace {

struct Press {
  std::string name;  ///< lower case letters and digits, without "press"
  double removed = 0;
};

bool recognises(const StackText& text) {
  return text.mentions("kvpress") || text.has({"compression_ratio", "press_name"});
}

std::string plain(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  if (result.ends_with("press") && result.size() > 5) result.resize(result.size() - 5);
  return result;
}

double removed_share(const std::string& text) {
  std::size_t used = 0;
  double value = -1;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used != text.size() || !(value >= 0 && value < 1)) {
    throw InputError(
        fmt::format("import: compression_ratio: expected the fraction removed, in [0, 1), got \"{}\"", text));
  }
  return value;
}

/// "SnapKVPress(compression_ratio=0.3)" and so on, in the order of the text.
std::vector<Press> presses_in(const StackText& text) {
  std::vector<Press> presses;
  const std::string& all = text.text();
  for (std::size_t at = all.find("Press("); at != std::string::npos; at = all.find("Press(", at + 1)) {
    std::size_t begin = at;
    while (begin > 0 && std::isalnum(static_cast<unsigned char>(all[begin - 1])) != 0) --begin;
    const std::string name = plain(all.substr(begin, at + 5 - begin));
    const std::size_t close = all.find(')', at);
    const std::string arguments = all.substr(at, close == std::string::npos ? std::string::npos : close - at);
    const std::size_t ratio = arguments.find("compression_ratio=");
    // A wrapper's press has the ratio, not the wrapper.
    if (ratio == std::string::npos || arguments.find("Press(", 1) < ratio) continue;
    const std::size_t first = ratio + std::string("compression_ratio=").size();
    const std::size_t end = arguments.find_first_of(",) \n", first);
    presses.push_back({name, removed_share(arguments.substr(first, end == std::string::npos ? end : end - first))});
  }
  if (presses.empty()) {
    const auto ratio = text.value({"compression_ratio"});
    presses.push_back({plain(text.value({"press_name"}).value_or("")), ratio ? removed_share(*ratio) : 0.0});
  }
  return presses;
}

const Preset* preset_of(const std::string& press) {
  for (const Preset& preset : presets()) {
    if (plain(preset.name) == press) return &preset;
    for (const std::string& alias : preset.aliases) {
      if (plain(alias) == press) return &preset;
    }
  }
  return nullptr;
}

Imported read(const StackText& text) {
  Imported imported;
  imported.model = text.value({"model"}).value_or("");
  imported.page_size = 1;
  const std::vector<Press> presses = presses_in(text);
  double kept = 1;
  for (const Press& press : presses) kept *= 1 - press.removed;
  const double kept_ppm = std::round(kept * 1e6);
  if (kept_ppm < 1) throw InputError("import: the presses together keep less than one in a million");
  imported.loses.push_back(fmt::format("{} press(es) remove {:.4g} % of the positions: keep_ratio {:.6g}",
                                       presses.size(), 100 * (1 - kept), kept));
  const Preset* preset = presses.size() == 1 ? preset_of(presses.front().name) : nullptr;
  if (preset != nullptr) {
    imported.compression = fmt::format("{{preset: {}, keep_ratio: {:.6g}}}", preset->name, kept_ppm / 1e6);
  } else {
    imported.compression = fmt::format(
        "{{block_size: 1, protect: {{sinks: 0, window: 0}}, stages: [{{evict: {{scorer: attention_sum, granularity: "
        "token, "
        "keep_ratio: {:.6g}}}}}]}}",
        kept_ppm / 1e6);
    imported.left_out.push_back(
        presses.size() == 1
            ? fmt::format("no preset is press \"{}\": imported as attention_sum", presses.front().name)
            : std::string("several presses: imported as one attention_sum with what they keep together"));
  }
  return imported;
}

}  // namespace

Stack kvpress_stack() {
  return {"kvpress", &recognises, &read};
}

}  // namespace kvtide::experiment

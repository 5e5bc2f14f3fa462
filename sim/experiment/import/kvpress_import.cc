// NVIDIA kvpress: presses in Python, or its evaluation's press_name and compression_ratio. compression_ratio is the fraction
// REMOVED; this is the only place that reads it. Presses composed one after another multiply what they keep.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/trimmed.h"
#include "experiment/import/imported.h"
#include "experiment/import/stack_text.h"
#include "experiment/preset/preset.h"

namespace kvtide::experiment {
namespace {

/// One call: ChunkKVPress(press=SnapKVPress(0.5), chunk_length=20) is chunkkv around snapkv.
struct Press {
  std::string name;                                            ///< lower case letters and digits, without "press"
  std::vector<std::pair<std::string, std::string>> arguments;  ///< but other presses; key empty: by place
  std::vector<Press> inner;
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

/// Arguments between commas that stand in no bracket.
std::vector<std::string> arguments_in(std::string_view body) {
  std::vector<std::string> result;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= body.size(); ++i) {
    const char c = i < body.size() ? body[i] : ',';
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (c != ',' || (depth > 0 && i < body.size())) continue;
    if (const std::string_view text = trimmed(body.substr(begin, i - begin)); !text.empty()) result.emplace_back(text);
    begin = i + 1;
  }
  return result;
}

constexpr int kMaxNesting = 8;

/// Calls of presses in the order of the text, those inside a call below it.
std::vector<Press> presses_in(std::string_view all, int nesting = 0) {
  std::vector<Press> presses;
  if (nesting > kMaxNesting) return presses;
  std::size_t at = all.find("Press(");
  while (at != std::string_view::npos) {
    std::size_t begin = at;
    while (begin > 0 && std::isalnum(static_cast<unsigned char>(all[begin - 1])) != 0) --begin;
    const std::size_t open = at + 5;
    std::size_t close = open;
    int depth = 0;
    for (; close < all.size(); ++close) {
      if (all[close] == '(') ++depth;
      if (all[close] == ')' && --depth == 0) break;
    }
    const std::string_view body = all.substr(open + 1, close - open - 1);
    Press press{plain(all.substr(begin, open - begin)), {}, presses_in(body, nesting + 1)};
    for (const std::string& argument : arguments_in(body)) {
      if (argument.find("Press(") != std::string::npos) continue;
      const std::size_t equals = argument.find('=');
      if (equals == std::string::npos) {
        press.arguments.emplace_back("", argument);
      } else {
        const std::string_view text = argument;
        press.arguments.emplace_back(trimmed(text.substr(0, equals)), trimmed(text.substr(equals + 1)));
      }
    }
    presses.push_back(std::move(press));
    at = close < all.size() ? all.find("Press(", close) : std::string_view::npos;
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

/// A press that changes how another's scores are used, and the preset that does the same.
struct Wrapper {
  const char* press;
  const char* preset;
  const char* around;    ///< the press that the preset holds
  const char* size_key;  ///< its argument that is block_size here; empty: none
};
constexpr std::array<Wrapper, 7> kWrappers{{{"chunkkv", "chunkkv", "snapkv", "chunk_length"},
                                            {"chunk", "chunkpress", "snapkv", "chunk_length"},
                                            {"block", "blockpress", "keydiff", "block_size"},
                                            {"adakv", "adakv", "snapkv", ""},
                                            {"criticaladakv", "criticaladakv", "snapkv", ""},
                                            {"criticalkv", "criticalkv", "snapkv", ""},
                                            {"critical", "criticalkv", "snapkv", ""}}};

/// kvpress' evaluation names "adakv_snapkv", "block_keydiff": a wrapper's name before another press'.
Press named_press(const std::string& name) {
  if (preset_of(name) == nullptr) {
    for (const Wrapper& wrapper : kWrappers) {
      const std::string rest = name.starts_with(wrapper.press) ? name.substr(std::string(wrapper.press).size()) : "";
      if (!rest.empty() && preset_of(rest) != nullptr) return {wrapper.press, {}, {{rest, {}, {}}}};
    }
  }
  return {name, {}, {}};
}

/// The parameters of a preset's only evict stage but keep_ratio; empty: it has other parts.
std::string evict_parameters(const Preset& preset) {
  constexpr std::string_view kBefore = "- evict: {granularity: token, keep_ratio: 0.5, ";
  const std::size_t begin = preset.yaml.find(kBefore);
  if (begin == std::string::npos || preset.yaml.find("- ", begin + 1) != std::string::npos ||
      preset.yaml.find("positions") != std::string::npos) {
    return {};
  }
  const std::size_t first = begin + kBefore.size();
  return preset.yaml.substr(first, preset.yaml.rfind('}') - first);
}

/// What one press, with what it holds, is here.
struct Reading {
  double kept = 1;
  std::string scored_by;  ///< names of the presses, outermost first: "chunkkv of snapkv"
  std::string preset;     ///< empty: none
  std::string stages;     ///< in place of the preset's own; empty: its own
  std::optional<std::int64_t> block_size;
  bool closes_ranks = false;
  std::vector<std::string> left_out;
};

Reading reading_of(const Press& press);

/// One press around another.
Reading reading_around(const Press& press) {
  Reading reading = reading_of(press.inner.front());
  const auto* wrapper =
      std::find_if(kWrappers.begin(), kWrappers.end(), [&](const Wrapper& one) { return press.name == one.press; });
  const bool has_wrapper = wrapper != kWrappers.end();
  for (const auto& [key, value] : press.arguments) {
    const std::optional<std::int64_t> size =
        has_wrapper && key == wrapper->size_key ? whole_number(value) : std::nullopt;
    if (size) {
      reading.block_size = *size;
    } else {
      reading.left_out.push_back(fmt::format("{}{}{} of press \"{}\"", key, key.empty() ? "" : "=", value, press.name));
    }
  }
  const std::string inside = reading.scored_by;
  reading.scored_by = press.name + " of " + inside;
  if (press.name == "keyrerotation") {
    reading.closes_ranks = true;
    return reading;
  }
  const Preset* held = reading.preset.empty() || !reading.stages.empty() ? nullptr : preset_of(inside);
  const std::string parameters = held == nullptr ? "" : evict_parameters(*held);
  if (!has_wrapper || parameters.empty()) {
    reading.left_out.push_back(
        fmt::format("what press \"{}\" does with the scores of \"{}\": imported without it", press.name, inside));
    return reading;
  }
  const Preset& outer = find_preset(wrapper->preset);
  reading.preset = outer.name;
  if (inside != wrapper->around) {
    const std::size_t begin = outer.yaml.find("- evict: ") + 2;
    reading.stages = outer.yaml.substr(begin, outer.yaml.find('\n', begin) - begin);
    const std::string own = fmt::format("scorer: {}", wrapper->around);
    reading.stages.replace(reading.stages.find(own), own.size(), parameters);
  }
  return reading;
}

Reading reading_of(const Press& press) {
  if (press.inner.size() == 1) return reading_around(press);
  Reading reading;
  reading.scored_by = press.name;
  if (const Preset* preset = preset_of(press.name); preset != nullptr && preset->family != "low rank") {
    reading.preset = preset->name;
  }
  if (!press.inner.empty()) {  // ComposedPress: one after another
    for (const Press& part : press.inner) {
      Reading one = reading_of(part);
      reading.kept *= one.kept;
      reading.left_out.insert(reading.left_out.end(), one.left_out.begin(), one.left_out.end());
    }
    reading.preset.clear();
    reading.left_out.emplace_back("several presses: imported as one attention_sum with what they keep together");
    return reading;
  }
  for (std::size_t i = 0; i < press.arguments.size(); ++i) {
    const auto& [key, value] = press.arguments[i];
    // compression_ratio is the first argument of every press that has scores.
    if (key == "compression_ratio" || (key.empty() && i == 0 && press.name != "think")) {
      reading.kept = 1 - removed_share(value);
    } else {
      reading.left_out.push_back(fmt::format("{}{}{} of press \"{}\"", key, key.empty() ? "" : "=", value, press.name));
    }
  }
  if (reading.preset.empty()) {
    reading.left_out.push_back(fmt::format(
        fmt::runtime(preset_of(press.name) == nullptr ? "no preset is press \"{}\": imported as attention_sum"
                                                      : "press \"{}\" removes channels, not positions: not imported"),
        press.name));
  }
  return reading;
}

Imported read(const StackText& text) {
  Imported imported;
  imported.model = text.value({"model"}).value_or("");
  imported.page_size = 1;
  std::vector<Press> presses = presses_in(text.text());
  const bool has_calls = !presses.empty();
  if (!has_calls) presses.push_back(named_press(plain(text.value({"press_name"}).value_or(""))));
  Reading reading = reading_of(presses.size() == 1 ? presses.front() : Press{"composed", {}, presses});
  if (const auto ratio = has_calls ? std::nullopt : text.value({"compression_ratio"})) {
    reading.kept = 1 - removed_share(*ratio);
  }
  const double kept_ppm = std::round(reading.kept * 1e6);
  if (kept_ppm < 1) throw InputError("import: the presses together keep less than one in a million");
  imported.loses.push_back(fmt::format("{} removes {:.4g} % of the positions: keep_ratio {:.6g}",
                                       presses.size() == 1 ? reading.scored_by : "several presses together",
                                       100 * (1 - reading.kept), reading.kept));
  imported.left_out = reading.left_out;
  const std::string keep = fmt::format("keep_ratio: {:.6g}", kept_ppm / 1e6);
  if (reading.preset.empty()) {
    imported.compression = fmt::format(
        "{{block_size: 1, protect: {{sinks: 0, window: 0}}, stages: [{{evict: {{scorer: attention_sum, granularity: "
        "token, {}}}}}]}}",
        keep);
    return imported;
  }
  imported.compression = fmt::format("{{preset: {}", reading.preset);
  if (reading.block_size) imported.compression += fmt::format(", block_size: {}", *reading.block_size);
  if (!reading.stages.empty()) imported.compression += fmt::format(", stages: [{{{}}}]", reading.stages);
  if (reading.closes_ranks) imported.compression += ", positions: {kind: contiguous}";
  imported.compression += fmt::format(", {}}}", keep);
  return imported;
}

}  // namespace

Stack kvpress_stack() {
  return {"kvpress", &recognises, &read};
}

}  // namespace kvtide::experiment

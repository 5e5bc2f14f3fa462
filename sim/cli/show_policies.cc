#include "cli/show_policies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/json_object.h"
#include "base/quoted_text.h"
#include "cli/table.h"
#include "experiment/catalogue.h"
#include "kv/compression/codec.h"

namespace kvtide::cli {
namespace {

constexpr std::int64_t kTokens = 32768;

std::string json_of(const experiment::CatalogueEntry& entry) {
  const experiment::Preset& preset = *entry.preset;
  return fmt::format(
      "{{\"name\": {}, \"aliases\": {}, \"family\": {}, \"summary\": {}, \"paper\": {}, \"left_out\": {}, \"yaml\": "
      "{}, "
      "\"composition\": {}, \"bytes_per_token\": {}, \"bytes_per_token_full\": {}, \"compress_flop_per_token\": {}, "
      "\"converted_per_token\": {}, \"rebuild_macs_per_token\": {}}}",
      quoted_text(preset.name), json_texts(preset.aliases), quoted_text(preset.family), quoted_text(preset.summary),
      quoted_text(preset.paper), quoted_text(preset.differs), quoted_text(preset.yaml), quoted_text(entry.composition),
      entry.bytes_per_token, entry.full_bytes_per_token, entry.compress_flop_per_token, entry.converted_per_token,
      entry.rebuild_macs_per_token);
}

std::string saved(const experiment::CatalogueEntry& entry) {
  return fmt::format("{:.1f}%", 100 * (1 - entry.bytes_per_token / entry.full_bytes_per_token));
}

/// Bits of a stored element, scales included: 128 channels, groups of 32, blocks of 128 positions, 2,048 in all.
double bits_of(const kv::Codec& codec, bool is_key) {
  const kv::Quantize stage;
  return kv::stored_bits({&codec, &stage, is_key, 128}, 128, 2048);
}

/// A list of all codecs, or the object of the one named.
std::string codecs_json(const std::string& name) {
  std::vector<std::string> objects;
  for (const kv::Codec& codec : kv::codecs()) {
    if (!name.empty() && codec.name != name) continue;
    objects.push_back(JsonObject()
                          .text("name", codec.name)
                          .number("bits_key", bits_of(codec, true))
                          .number("bits_value", bits_of(codec, false))
                          .text("summary", codec.summary)
                          .text("paper", codec.paper)
                          .str());
  }
  return name.empty() ? json_list(objects) : objects.front();
}

/// The presets asked for: one, or all.
std::vector<const experiment::Preset*> chosen(const std::string& name) {
  std::vector<const experiment::Preset*> found;
  if (!name.empty()) return {&experiment::find_preset(name)};
  for (const experiment::Preset& preset : experiment::presets()) found.push_back(&preset);
  return found;
}

}  // namespace

void show_presets(const std::string& name, const std::string& model, bool as_json) {
  if (as_json) {
    show_policies(name, model, false, true);
    return;
  }
  if (name.empty()) {
    Table table({{"preset", Align::left}, {"family", Align::left}, {"what it is", Align::left}, {"also", Align::left}});
    for (const experiment::Preset& preset : experiment::presets()) {
      table.add_row({preset.name, preset.family, preset.summary, fmt::format("{}", fmt::join(preset.aliases, ", "))});
    }
    fmt::print("{}", table.text());
    return;
  }
  const experiment::Preset& preset = experiment::find_preset(name);
  const experiment::CatalogueEntry entry = experiment::catalogue_entry(preset, model, kTokens);
  fmt::print("# {}: {}\n", preset.name, preset.summary);
  if (!preset.paper.empty()) fmt::print("# paper: {}\n", preset.paper);
  if (!preset.differs.empty()) fmt::print("# left out: {}\n", preset.differs);
  fmt::print(
      "# {} at {} tokens: {:.0f} B a token of {:.0f}, {} saved; {:.3g} flop to compress a token; a decode step "
      "converts "
      "{:.3g} elements\n# and rebuilds with {:.3g} multiply-adds for each token of the context.\n",
      model, kTokens, entry.bytes_per_token, entry.full_bytes_per_token, saved(entry), entry.compress_flop_per_token,
      entry.converted_per_token, entry.rebuild_macs_per_token);
  fmt::print("compression:\n");
  std::size_t begin = 0;
  while (begin < preset.yaml.size()) {
    const std::size_t end = std::min(preset.yaml.find('\n', begin), preset.yaml.size());
    fmt::print("  {}\n", preset.yaml.substr(begin, end - begin));
    begin = end + 1;
  }
}

void show_policies(const std::string& name, const std::string& model, bool as_markdown, bool as_json) {
  if (as_markdown) {
    fmt::print("{}", experiment::catalogue_markdown());
    return;
  }
  if (as_json) {
    std::vector<std::string> entries;
    for (const experiment::Preset* preset : chosen(name)) {
      entries.push_back(json_of(experiment::catalogue_entry(*preset, model, kTokens)));
    }
    fmt::print("[{}]\n", fmt::join(entries, ",\n "));
    return;
  }
  Table table({{"preset", Align::left},
               {"B a token", Align::right},
               {"saved", Align::right},
               {"compress, flop", Align::right},
               {"convert", Align::right},
               {"rebuild, MAC", Align::right},
               {"paper", Align::left},
               {"composition", Align::left}});
  for (const experiment::Preset* preset : chosen(name)) {
    const experiment::CatalogueEntry entry = experiment::catalogue_entry(*preset, model, kTokens);
    table.add_row({preset->name, fmt::format("{:.0f}", entry.bytes_per_token), saved(entry),
                   fmt::format("{:.3g}", entry.compress_flop_per_token),
                   fmt::format("{:.3g}", entry.converted_per_token),
                   fmt::format("{:.3g}", entry.rebuild_macs_per_token), preset->paper, entry.composition});
  }
  fmt::print(
      "{}{} at {} tokens, pages of 16; compress: once a token; convert, rebuild: every decode step, for each token\n",
      table.text(), model, kTokens);
}

void show_codecs(const std::string& given, bool as_json) {
  const std::string name(given.empty() ? "" : kv::find_codec(given).name);
  if (as_json) {
    const std::string codecs = codecs_json(name);
    fmt::print("{}\n", name.empty() ? JsonObject().raw("codecs", codecs).str() : codecs);
    return;
  }
  if (name.empty()) {
    Table stages({{"stage", Align::left}, {"parameters", Align::left}, {"what it does", Align::left}});
    stages.add_row(
        {"evict", "scorer and its parameters, granularity, keep_ratio, heads, selection, budget, rest, ...",
         "drops blocks or tokens of low importance, leaves them unread, moves them to the host, or merges them"});
    stages.add_row(
        {"pool", "width, rope, mass_correct, weight", "replaces `width` positions by their mean key and value"});
    stages.add_row({"low_rank", "rank or k_share, v_share; scope, heads, layers, k_rope, channels",
                    "stores coefficients and a basis of a block, a sequence or the model"});
    stages.add_row({"quantize",
                    "format or k_format, v_format; group, k_axis, v_axis, symmetric, residual, residual_from, k_rope",
                    "stores rows by one of the codecs below"});
    fmt::print("{}\n", stages.text());
  }
  Table table({{"codec", Align::left},
               {"bits K", Align::right},
               {"bits V", Align::right},
               {"what it is", Align::left},
               {"paper", Align::left}});
  for (const kv::Codec& codec : kv::codecs()) {
    if (!name.empty() && codec.name != name) continue;
    table.add_row({std::string(codec.name), fmt::format("{:.4g}", bits_of(codec, true)),
                   fmt::format("{:.4g}", bits_of(codec, false)), std::string(codec.summary), std::string(codec.paper)});
  }
  fmt::print(
      "{}Bits of an element, scales included: 128 channels, groups of 32, blocks of 128 positions, 2,048 in all.\n",
      table.text());
}

}  // namespace kvtide::cli

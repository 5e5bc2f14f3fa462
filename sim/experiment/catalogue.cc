#include "experiment/catalogue.h"

#include <fmt/format.h>

#include <cmath>

#include "experiment/setting_reader.h"
#include "kv/cache_timeline.h"
#include "kv/compression/codec.h"
#include "kv/served_cache.h"

namespace kvtide::experiment {
namespace {

constexpr std::int64_t kPageSize = 16;
constexpr std::int64_t kReferenceTokens = 32768;
constexpr const char* kReferenceModel = "llama-3.1-8b";

Setting setting_of(const Preset& preset, const std::string& model, std::int64_t context_tokens) {
  config::Document document = config::Document::parse(
      fmt::format("gpu: h100-sxm\ntrace: {{synthetic: {{kind: uniform, tokens: 256}}}}\ncontext_tokens: {}\n",
                  context_tokens),
      fmt::format("preset {}", preset.name));
  document.set("compression", fmt::format("{{preset: {}}}", preset.name));
  document.set("model", fmt::format("'{}'", model));
  expand_preset(document);
  NameResolver resolver("");
  Setting setting = read_setting(document.root(), resolver);
  document.throw_if_errors();
  return setting;
}

/// Scores without ties, for as many positions as are served.
kv::RecordedScores made_up_scores(std::int64_t num_positions) {
  kv::RecordedScores scores;
  scores.num_model_layers = 1;
  scores.layers = {0};
  scores.num_positions = num_positions;
  scores.num_kv_heads = 1;
  std::vector<double> row;
  for (std::int64_t position = 0; position < num_positions; ++position) {
    row.push_back(std::fmod(static_cast<double>(position) * 0.6180339887498949, 1.0));
  }
  scores.scores = {{std::move(row)}};
  return scores;
}

}  // namespace

CatalogueEntry catalogue_entry(const Preset& preset, const std::string& model_name, std::int64_t context_tokens) {
  const Setting setting = setting_of(preset, model_name, context_tokens);
  const Model model = load_model(model_name);
  const kv::RecordedScores scores = made_up_scores(context_tokens);
  const auto tokens = static_cast<double>(context_tokens);
  CatalogueEntry entry;
  entry.preset = &preset;
  entry.composition = compression_text(setting);
  const kv::CacheTimeline timeline({model, setting.compression, kPageSize, setting.layout, 1}, scores, context_tokens);
  entry.bytes_per_token =
      static_cast<double>(kv::sequence_bytes(timeline.cache(), kPageSize, setting.layout).total) / tokens;
  entry.full_bytes_per_token = static_cast<double>(model.kv_bytes_per_token());
  kv::CacheEvent everything;
  everything.num_positions = context_tokens;
  everything.completed_blocks = context_tokens / setting.compression.block_size;
  entry.compress_flop_per_token =
      timeline.compression_work(everything).flops * static_cast<double>(model.num_layers) / tokens;
  for (const kv::LayerAttention& layer : timeline.attention()) {
    for (const gpu::AttentionTask& task : layer.work.tasks) {
      const auto copies = static_cast<double>(task.count * layer.num_layers);
      entry.converted_per_token += task.dequantized_elements * copies / tokens;
      entry.rebuild_macs_per_token += task.reconstruction_macs * copies / tokens;
    }
  }
  return entry;
}

std::string catalogue_markdown() {
  std::string text = fmt::format(
      "# Catalogue of presets\n\n"
      "Printed by `kvtide show policies --markdown`; a test compares the two. {} at {} tokens, pages of {}; \"saved\" "
      "counts "
      "scales, zero points, bases and page rounding. \"Compress\" is arithmetic to compress a token once; \"convert\" "
      "and "
      "\"rebuild\" are what each decode step pays for each token in the context (elements converted, an int4 element "
      "being "
      "1; multiply-adds of low-rank forms), both over all layers. "
      "`kvtide show presets NAME` prints the composition; any key of it can be replaced beside the name.\n\n"
      "| preset | family | what it is | bytes a token | saved | compress, flop | convert | rebuild, MAC | paper | left "
      "out |\n"
      "|---|---|---|---:|---:|---:|---:|---:|---|---|\n",
      kReferenceModel, kReferenceTokens, kPageSize);
  for (const Preset& preset : presets()) {
    const CatalogueEntry entry = catalogue_entry(preset, kReferenceModel, kReferenceTokens);
    text += fmt::format("| {} | {} | {} | {:.0f} | {:.1f} % | {:.3g} | {:.3g} | {:.3g} | {} | {} |\n", preset.name,
                        preset.family, preset.summary, entry.bytes_per_token,
                        100 * (1 - entry.bytes_per_token / entry.full_bytes_per_token), entry.compress_flop_per_token,
                        entry.converted_per_token, entry.rebuild_macs_per_token, preset.paper, preset.differs);
  }
  text +=
      "\n## Codecs\n\nFormats of the quantize stage (`format`, or `k_format` and `v_format`); bits of an element at "
      "128 "
      "channels in blocks of 128 positions, 2,048 in all, scales included, groups of 32.\n\n"
      "| codec | what it is | bits K | bits V | keys stored | paper |\n|---|---|---:|---:|---|---|\n";
  const kv::Quantize stage;
  for (const kv::Codec& codec : kv::codecs()) {
    text += fmt::format("| {} | {} | {:.4g} | {:.4g} | {} RoPE | {} |\n", codec.name, codec.summary,
                        kv::stored_bits({&codec, &stage, true, 128}, 128, 2048),
                        kv::stored_bits({&codec, &stage, false, 128}, 128, 2048),
                        codec.k_rope == kv::RopeState::pre ? "before" : "after", codec.paper);
  }
  return text;
}

}  // namespace kvtide::experiment

#include "experiment/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/data_directory.h"
#include "config/csv_table.h"
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

/// Scores without ties, for as many positions as are served; of two layers the first is lazy, of two heads whose scores
/// tell heads apart the first reads far.
kv::RecordedScores made_up_scores(const Setting& setting, std::int64_t num_positions) {
  kv::RecordedScores scores;
  scores.num_model_layers = 2;
  scores.layers = {0, 1};
  scores.num_positions = num_positions;
  scores.budget = setting.layer_budget;
  scores.is_lazy = {true, false};
  const bool tells_heads_apart = std::ranges::any_of(setting.compression.stages, [](const kv::Stage& stage) {
    const auto* evict = std::get_if<kv::Evict>(&stage);
    return evict != nullptr && evict->scorer == "retrieval_heads";
  });
  scores.num_kv_heads = tells_heads_apart ? 2 : 1;
  kv::LayerScores layer;
  if (tells_heads_apart) {
    layer = {std::vector<double>(static_cast<std::size_t>(num_positions), 1.0),
             std::vector<double>(static_cast<std::size_t>(num_positions), 0.0)};
  } else {
    std::vector<double>& row = layer.emplace_back();
    for (std::int64_t position = 0; position < num_positions; ++position) {
      row.push_back(std::fmod(static_cast<double>(position) * 0.6180339887498949, 1.0));
    }
  }
  scores.scores = {layer, layer};
  return scores;
}

/// The peer's name of the same composition in the kept-position files (kvpress classes and parameters).
std::string peer_name(const std::string& preset) {
  static const std::map<std::string, std::string> names{
      {"adakv", "AdaKV_SnapKV"},
      {"blockpress", "Block128_KeyDiff"},
      {"chunkkv", "ChunkKV20_SnapKV"},
      {"chunkpress", "Chunk256_Knorm"},
      {"compactor", "Compactor"},
      {"capkv", "Cap"},
      {"criticaladakv", "CriticalAdaKV_SnapKV"},
      {"criticalkv", "CriticalKV_SnapKV"},
      {"cur", "CUR"},
      {"entropy-gated-chunkkv", "EntropyGatedChunkKV10_SnapKV"},
      {"expected-attention", "ExpectedAttention"},
      {"keydiff", "KeyDiff"},
      {"knorm", "Knorm"},
      {"lagkv", "LagKV"},
      {"leverage", "LeverageScore"},
      {"merging-knorm", "Merging_Knorm"},
      {"non-causal-attention", "NonCausalAttn"},
      {"observed-attention", "ObservedAttention"},
      {"pyramidkv", "PyramidKV"},
      {"random", "Random_seed0"},
      {"simlayerkv", "SimLayerKV"},
      {"snapkv", "SnapKV"},
      {"streamingllm", "StreamingLLM"},
      {"think", "ThinK"},
      {"tova", "TOVA"},
  };
  const auto found = names.find(preset);
  return found == names.end() ? std::string() : found->second;
}

/// What `kvtide validate kept -o` wrote, [method] "equal" or the worst share of equal choices.
std::map<std::string, std::string> recorded_agreement() {
  std::map<std::string, std::string> agreement;
  const std::string path = data_directory() + "/experiments/peer-agreement.csv";
  if (!std::filesystem::exists(path)) return agreement;
  const config::CsvTable table = config::CsvTable::load(path);
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    if (table.text(row, "compared") == "0") continue;
    agreement[table.text(row, "method")] =
        table.text(row, "differing") == "0" ? "equal" : table.text(row, "worst_agreement");
  }
  return agreement;
}

}  // namespace

CatalogueEntry catalogue_entry(const Preset& preset, const std::string& model_name, std::int64_t context_tokens) {
  const Setting setting = setting_of(preset, model_name, context_tokens);
  const Model model = load_model(model_name);
  const kv::RecordedScores scores = made_up_scores(setting, context_tokens);
  const auto tokens = static_cast<double>(context_tokens);
  CatalogueEntry entry;
  entry.preset = &preset;
  entry.composition = compression_text(setting);
  const kv::CacheTimeline timeline(
      {model, setting.compression, kPageSize, setting.layout, 1, setting.schedule, setting.sharing}, scores,
      context_tokens);
  entry.bytes_per_token =
      static_cast<double>(kv::sequence_bytes(timeline.cache(), kPageSize, setting.layout).total) / tokens;
  entry.full_bytes_per_token = static_cast<double>(model.kv_bytes_per_token());
  kv::CacheEvent everything;
  everything.num_positions = context_tokens;
  everything.completed_blocks = context_tokens / setting.compression.block_size;
  everything.flushed_positions = everything.flushed_values = context_tokens;
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
      "`kvtide show presets NAME` prints the composition; any key of it can be replaced beside the name. \"kvpress\" "
      "says how the choices compare with those of kvpress 0.5.5 on the recorded 2,048-token trace, four layers at "
      "three "
      "ratios (experiments/peer-agreement.csv, written by `kvtide validate kept ... -o`): equal, or the smallest share "
      "of equal choices; of methods that draw, the choice from given scores.\n\n"
      "| preset | family | what it is | bytes a token | saved | compress, flop | convert | rebuild, MAC | kvpress | "
      "paper | "
      "left out |\n"
      "|---|---|---|---:|---:|---:|---:|---:|---|---|---|\n",
      kReferenceModel, kReferenceTokens, kPageSize);
  const std::map<std::string, std::string> agreement = recorded_agreement();
  for (const Preset& preset : presets()) {
    const CatalogueEntry entry = catalogue_entry(preset, kReferenceModel, kReferenceTokens);
    const auto peer = agreement.find(peer_name(preset.name));
    text += fmt::format("| {} | {} | {} | {:.0f} | {:.1f} % | {:.3g} | {:.3g} | {:.3g} | {} | {} | {} |\n", preset.name,
                        preset.family, preset.summary, entry.bytes_per_token,
                        100 * (1 - entry.bytes_per_token / entry.full_bytes_per_token), entry.compress_flop_per_token,
                        entry.converted_per_token, entry.rebuild_macs_per_token,
                        peer == agreement.end() ? "" : peer->second, preset.paper, preset.differs);
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

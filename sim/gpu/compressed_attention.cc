#include "gpu/compressed_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/data_directory.h"
#include "base/error.h"
#include "gpu/fact_reader.h"
#include "gpu/memory_traffic.h"

namespace kvtide::gpu {
namespace {

constexpr double kRopeWidth = 64;
constexpr double kLatentWidth = 512;  // also DeepSeek-V4's head_dim
constexpr double kIndexWidth = 128;
constexpr double kOutputRank = 1024;   // DeepSeek-V4, o_lora_rank
constexpr std::int64_t kWindow = 128;  // DeepSeek-V4's exact tokens
constexpr double kTileRows = 64;       // query heads are padded to the rows of one matrix instruction
constexpr Bytes kWeightRun = Bytes{64} << 10;
constexpr double kMaxWork = 1e18;

/// Shapes as in the models' configurations (aiconfigurator's DSA_MODEL_DIMS; DeepSeek-V4's config.json).
const std::vector<std::pair<std::string, SparseModel>>& known_models() {
  static const std::vector<std::pair<std::string, SparseModel>> models{
      {"DeepSeek-V3.2", {}},
      {"GLM-5",
       {.hidden = 6144,
        .query_rank = 2048,
        .nope_width = 192,
        .value_width = 256,
        .num_index_heads = 32,
        .num_heads = 64}},
      {"DeepSeek-V4-Flash",
       {.has_latent_cache = false,
        .hidden = 4096,
        .query_rank = 1024,
        .num_selected = 512,
        .num_heads = 64,
        .output_groups = 8}},
      {"DeepSeek-V4-Pro", {.has_latent_cache = false, .num_selected = 1024}},
  };
  return models;
}

}  // namespace

AttentionModule load_attention_module(const std::string& framework, const std::string& kind,
                                      const std::string& memory_standard) {
  std::string name = fmt::format("{}-{}-{}", framework, kind, memory_standard.starts_with("gddr") ? "gddr" : "hbm");
  const std::vector<std::string> shipped = list_data_files("hw_profiles/attention_modules", {".yaml"});
  if (std::ranges::find(shipped, name) == shipped.end()) name = fmt::format("{}-{}-hbm", framework, kind);
  config::Document document = config::Document::load(find_data_file("hw_profiles/attention_modules", name, {".yaml"}));
  std::vector<ProfileFact> facts;
  FactReader reader(document.root(), facts);
  AttentionModule module;
  module.name = document.root().string("name");
  module.fixed_time = reader.quantity("fixed_time", seconds());
  module.sequence_time = reader.quantity("sequence_time", seconds());
  module.projection_efficiency = reader.number("projection_efficiency", 1e-4, 10);
  module.index_efficiency = reader.number("index_efficiency", 1e-4, 10);
  module.select_time = reader.quantity("select_time", seconds());
  module.attention_efficiency = reader.number("attention_efficiency", 1e-4, 100);
  document.root().finish();
  document.throw_if_errors();
  return module;
}

SparseModel sparse_model(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [known, model] : known_models()) {
    if (name.starts_with(known)) return model;
    names.push_back(known);
  }
  throw InputError(fmt::format("no sparse attention module for \"{}\" (known: {})", name, fmt::join(names, ", ")));
}

CompressedAttentionWork compressed_attention_work(const SparseModel& model, std::int64_t compress_ratio,
                                                  bool has_indexer, std::int64_t batch, std::int64_t context,
                                                  std::int64_t num_heads, double weight_bytes_per_element) {
  if (compress_ratio < 1 || context < 0 || batch < 0 || num_heads < 1) {
    throw InputError(
        fmt::format("compressed attention: expected a ratio and heads from 1, batch and context from 0, got "
                    "ratio {}, {} heads, batch {}, context {}",
                    compress_ratio, num_heads, batch, context));
  }
  const auto hidden = static_cast<double>(model.hidden), rank = static_cast<double>(model.query_rank);
  const auto heads = static_cast<double>(num_heads), index_heads = static_cast<double>(model.num_index_heads);
  CompressedAttentionWork work{.batch = batch, .num_heads = num_heads};
  work.weight_bytes_per_element = weight_bytes_per_element;
  if (model.has_latent_cache) {
    const auto nope = static_cast<double>(model.nope_width), value = static_cast<double>(model.value_width);
    work.projection_elements =
        hidden * (rank + kLatentWidth + kRopeWidth) + rank * heads * (nope + kRopeWidth) + heads * value * hidden;
    work.absorbed_elements = heads * kLatentWidth * (nope + value);
    work.attended_entries = std::min(context, model.num_selected);
    if (has_indexer) work.index_entries = context;
  } else {
    const double groups = static_cast<double>(model.output_groups) * heads / static_cast<double>(model.num_heads);
    work.projection_elements = hidden * (rank + kLatentWidth) + rank * heads * kLatentWidth +
                               heads * kLatentWidth * kOutputRank + groups * kOutputRank * hidden;
    const std::int64_t entries = context / compress_ratio;
    work.attended_entries =
        std::min(context, kWindow) + (has_indexer ? std::min(entries, model.num_selected) : entries);
    if (has_indexer) work.index_entries = entries;
  }
  if (has_indexer) {
    work.projection_elements += rank * index_heads * kIndexWidth + hidden * kIndexWidth + hidden * index_heads;
  }
  return work;
}

KernelTime time_compressed_attention(const GpuProfile& profile, MemoryModel& memory, const AttentionModule& module,
                                     const CompressedAttentionWork& work) {
  const auto batch = static_cast<double>(work.batch);
  const double projections = batch * work.projection_elements, absorbed = batch * work.absorbed_elements;
  const double indexed = batch * static_cast<double>(work.index_entries);
  const double attended = batch * static_cast<double>(work.attended_entries) *
                          std::max(kTileRows, static_cast<double>(work.num_heads)) * work.attended_width;
  for (const double amount : {batch, projections, absorbed, indexed, attended, work.weight_bytes_per_element}) {
    if (!(amount >= 0 && amount <= kMaxWork)) {
      throw InputError(fmt::format("compressed attention: work must be within 0..1e18, got {}", amount));
    }
  }
  if (work.batch == 0) return {};
  const double weight_bytes = work.projection_elements * work.weight_bytes_per_element + 2 * work.absorbed_elements;
  const double index_bytes = indexed * work.index_entry_bytes;
  const TrafficTime weights = traffic_time(profile, memory, {{weight_bytes, kWeightRun, 0}});
  const TrafficTime index =
      traffic_time(profile, memory, {{index_bytes, 16 * static_cast<Bytes>(work.index_entry_bytes), 0}});
  const bool is_16bit = work.weight_bytes_per_element > 1 || profile.tensor_flops_8bit <= 0;
  const double projection_flops = is_16bit ? profile.tensor_flops_16bit : profile.tensor_flops_8bit;
  const double waves = std::ceil(batch / static_cast<double>(profile.num_sms));
  const double memory_time = weights.seconds + index.seconds / module.index_efficiency;
  const double tensor_time =
      (2 * projections / projection_flops + 2 * absorbed / profile.tensor_flops_16bit) / module.projection_efficiency +
      4 * attended / profile.tensor_flops_16bit / module.attention_efficiency;
  const double small_kernels = module.fixed_time + module.sequence_time * batch +
                               module.select_time * waves * static_cast<double>(work.index_entries);
  const double seconds = small_kernels + memory_time + tensor_time;
  if (!(seconds < kMaxSeconds * 1e6)) {
    throw InputError(fmt::format("compressed attention: the work takes {:.3g} s, more than a million", seconds));
  }
  KernelTime time;
  time.duration = from_seconds(seconds);
  time.hbm_bytes = static_cast<Bytes>(std::llround(weight_bytes + index_bytes));
  time.row_hit_rate = index.seconds > weights.seconds ? index.row_hit_rate : weights.row_hit_rate;
  time.memory_busy_share = memory_time / seconds;
  time.limited_by = small_kernels >= std::max(memory_time, tensor_time) ? "launch"
                    : memory_time >= tensor_time                        ? "memory"
                                                                        : "compute";
  return time;
}

}  // namespace kvtide::gpu

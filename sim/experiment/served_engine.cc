#include "experiment/served_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "experiment/served_decode.h"
#include "kv/compression/first_stage.h"
#include "kv/compression/scorer.h"
#include "serving/captured_batch.h"

namespace kvtide::experiment {
namespace {

/// Of all layers that keep the whole context, else of all windows.
double entry_bytes(const Model& model, double entry_share) {
  const Bytes growing = model.kv_bytes_per_token_growing();
  return static_cast<double>(growing > 0 ? growing : model.kv_bytes_per_token()) * entry_share;
}

/// Of a GPU of the stage with most layers, which is full first.
double rank_entry_bytes(const Run& run, const Model& model, double entry_share) {
  return entry_bytes(model, entry_share) / fullest_gpu_division(model, run.setting);
}

double count_entries(const std::vector<kv::Segment>& segments) {
  double entries = 0;
  for (const kv::Segment& segment : segments) entries += static_cast<double>(segment.num_entries);
  return entries;
}

/// Sums over all layers and heads that keep the whole context.
struct HeldEntries {
  double positions = 0;
  double held = 0, read = 0;  ///< entries
};

HeldEntries held_entries(const kv::ServedCache& served) {
  HeldEntries sums;
  for (const kv::DistinctLayer& layer : served.layers) {
    if (!kv::is_compressible(layer.kind)) continue;
    for (std::size_t head = 0; head < layer.cache.heads.size(); ++head) {
      const kv::HeadCache& cache = layer.cache.heads[head];
      const auto count = static_cast<double>(layer.num_layers * layer.heads_of_distinct[head]);
      const double read = count_entries(cache.segments);
      sums.positions += count * static_cast<double>(cache.num_positions);
      sums.read += count * read;
      sums.held += count * (read + count_entries(cache.unread));
    }
  }
  return sums;
}

/// What a step reads and computes with an entry of a head, the mean of the layers and heads that keep the whole context.
struct EntryWork {
  double bytes = 0, chunk_bytes = 0;
  double dequantized_elements = 0, reconstruction_macs = 0;
  double fp8_entries = 0, fp8_bytes = 0;  // share of them
};

/// Of the layers that keep the whole context, or of the windows. Each layer waits for the rank that reads most in it; an entry is one of
/// `rank`, whose number the engine counts.
EntryWork entry_work(const std::vector<kv::LayerAttention>& attention, const Setting& setting, std::int64_t rank,
                     bool of_windows) {
  EntryWork sums;
  double entries = 0, read = 0, chunks = 0;
  for (const kv::LayerAttention& layer : attention) {
    if (!layer.is_compressed || (layer.kind.window > 0) != of_windows) continue;
    for (const gpu::AttentionTask& task : rank_attention(layer, setting).tasks) {
      const auto count = static_cast<double>(layer.num_layers * task.count);
      for (const gpu::PageStream& stream : task.streams) {
        const double bytes = count * static_cast<double>(stream.bytes);
        sums.bytes += bytes;
        if (stream.is_fp8) sums.fp8_bytes += bytes;
        chunks += bytes / static_cast<double>(std::max<Bytes>(1, stream.chunk_bytes));
      }
      read += count * static_cast<double>(task.num_entries);
      sums.fp8_entries += count * static_cast<double>(task.fp8_entries);
      sums.dequantized_elements += count * task.dequantized_elements;
      sums.reconstruction_macs += count * task.reconstruction_macs;
    }
    const gpu::DecodeAttentionWork own =
        gpu::part_of_rank(layer.work, layer.kind.num_kv_heads, layer.kind.is_latent, setting.tensor_parallel, rank);
    for (const gpu::AttentionTask& task : own.tasks)
      entries += static_cast<double>(layer.num_layers * task.count) * static_cast<double>(task.num_entries);
  }
  if (entries == 0) return {};
  return {.bytes = sums.bytes / entries,
          .chunk_bytes = chunks > 0 ? sums.bytes / chunks : 0,
          .dequantized_elements = sums.dequantized_elements / entries,
          .reconstruction_macs = sums.reconstruction_macs / entries,
          .fp8_entries = read > 0 ? sums.fp8_entries / read : 0,
          .fp8_bytes = sums.bytes > 0 ? sums.fp8_bytes / sums.bytes : 0};
}

/// The rank that is full first; the first of equal ones.
std::int64_t fullest_rank(const kv::ServedCache& cache, const Setting& setting) {
  const std::vector<Bytes> bytes = kv::rank_bytes(cache, setting.page_size, setting.layout, setting.tensor_parallel);
  return std::ranges::max_element(bytes) - bytes.begin();
}

/// Whether all that happens is that a residual is quantized once it is full.
bool flushes_alone(const kv::Compression& setting) {
  const auto* quantize = kv::first_stage<kv::Quantize>(setting);
  return setting.stages.size() == 1 && quantize != nullptr && quantize->residual > 0;
}

/// Tokens that are compressed together while decoding, a flush or a block; 1: each in its own step.
std::int64_t tokens_at_once(const kv::Compression& setting) {
  return flushes_alone(setting) ? kv::first_stage<kv::Quantize>(setting)->residual : setting.block_size;
}

/// Work of a token that is compressed, in one layer: that of a block or of a flush, divided by its tokens.
serving::MachineStepTime::Options::Compression compression_of(const Run& run, const kv::Compression& setting,
                                                              const Model& model, const kv::CacheTimeline& cache) {
  serving::MachineStepTime::Options::Compression work;
  if (setting.stages.empty()) return work;
  const std::int64_t tokens = tokens_at_once(setting);
  const gpu::CompressBlocksWork whole = cache.compression_work({.num_positions = cache.num_positions(),
                                                                .completed_blocks = flushes_alone(setting) ? 0 : 1,
                                                                .flushed_positions = tokens,
                                                                .flushed_values = tokens});
  const std::int64_t ranks = cache_division(model, run.setting) / run.setting.pipeline_parallel;
  const auto division = static_cast<double>(ranks * tokens);
  work.read_bytes = static_cast<double>(whole.read_bytes) / division;
  work.write_bytes = static_cast<double>(whole.write_bytes) / division;
  work.flops = (whole.flops - whole.query_flops) / division +
               whole.query_flops / static_cast<double>(run.setting.tensor_parallel * tokens);
  work.is_every_token = tokens == 1;
  work.thread_blocks = static_cast<double>(whole.num_blocks) / division;
  work.chunk_bytes = std::max<Bytes>(1, whole.chunk_bytes);
  for (const kv::DistinctLayer& layer : cache.cache().layers) {
    if (kv::is_compressed(layer.kind, setting)) work.num_layers += layer.num_stored_layers;
  }
  return work;
}

}  // namespace

CompressedShare compressed_share(const Run& run, const kv::Compression& setting, const Model& model,
                                 const kv::RecordedScores& scores, std::int64_t context) {
  const kv::ServedCache compressed = kv::serve(model, setting, scores, context);
  const std::int64_t rank = fullest_rank(compressed, run.setting), num_ranks = run.setting.tensor_parallel;
  const HeldEntries entries = held_entries(kv::part_of_rank(compressed, rank, num_ranks));
  const bool has_windows_alone = entries.positions == 0;
  if (setting.stages.empty() || (has_windows_alone && !kv::quantizes_every_entry(setting))) return {};
  const auto bytes_of = [&](const kv::Compression& one) {
    kv::ServedCache served = kv::part_of_rank(kv::serve(model, one, scores, context), rank, num_ranks);
    if (!has_windows_alone)
      std::erase_if(served.layers, [](const kv::DistinctLayer& layer) { return !kv::is_compressible(layer.kind); });
    return static_cast<double>(kv::sequence_bytes(served, run.setting.page_size, run.setting.layout).total);
  };
  CompressedShare share;
  if (!has_windows_alone) share.entries = std::clamp(entries.held / entries.positions, 1e-6, 1.0);
  share.bytes = bytes_of(setting) / (bytes_of(kv::Compression{}) * share.entries);
  return share;
}

serving::CacheGrowth cache_growth(const Model& model, const kv::Compression& setting, const CompressedShare& share,
                                  std::int64_t context) {
  serving::CacheGrowth growth;
  double window_bytes = 0, window_sum = 0;
  for (const LayerKind& kind : model.layers) {
    if (kind.window == 0) continue;
    const double share_of_kind = kv::is_compressed(kind, setting) ? share.bytes : 1;
    const auto bytes =
        static_cast<double>(kind.count) * static_cast<double>(kind.k_bytes + kind.v_bytes) * share_of_kind;
    window_bytes += bytes;
    window_sum += bytes * static_cast<double>(kind.window);
  }
  growth.has_whole_layers = window_bytes == 0 || model.kv_bytes_per_token_growing() > 0;
  if (window_bytes > 0) {  // Approximation: windows of several lengths are as their mean, weighted by bytes.
    growth.window = std::llround(window_sum / window_bytes);
    growth.window_weight = window_bytes / entry_bytes(model, share.bytes);
  }
  if (setting.stages.empty()) return growth;
  growth.interval = tokens_at_once(setting);
  if (!flushes_alone(setting)) growth.always_kept = std::min(context, setting.sinks + setting.window);
  if (share.entries < 1) {
    const auto compressed = static_cast<double>(growth.compressed(context));
    const double kept = share.entries * static_cast<double>(context) - (static_cast<double>(context) - compressed);
    if (compressed > 0) growth.keep_ratio = std::clamp(kept / compressed, 1e-3, 1.0);
  }
  return growth;
}

serving::MemoryAccount memory_account(const Run& run, const Model& model, const gpu::GpuProfile& profile,
                                      double entry_share) {
  const ServingSetting& asked = *run.setting.serving;
  const auto ranks = static_cast<double>(run.setting.tensor_parallel);
  const auto gpus = ranks * static_cast<double>(run.setting.pipeline_parallel);
  serving::MemoryAccount account;
  account.total_bytes = static_cast<double>(profile.reported_bytes);
  account.utilization = asked.memory_share;
  account.weight_bytes = static_cast<double>(weight_bytes_per_gpu(model, run.setting));
  account.activation_bytes = serving::predicted_activation_bytes(asked.max_num_seqs, model.vocab_size,
                                                                 asked.max_num_batched_tokens, model.hidden_size);
  account.other_bytes = serving::predicted_context_bytes(run.setting.tensor_parallel);
  account.kv_bytes_per_token = rank_entry_bytes(run, model, entry_share);
  account.block_size = run.setting.page_size;
  const double unavailable = account.weight_bytes + account.activation_bytes + account.other_bytes;
  if (asked.engine == "trtllm") {  // a share of what is free once the engine is loaded
    account.utilization =
        (unavailable + asked.memory_share * (account.total_bytes - unavailable)) / account.total_bytes;
  } else if (asked.engine == "sglang") {
    account.activation_bytes = account.other_bytes = 0;  // inside the reserve
    double reserve = 512e6 + 1.5e6 * static_cast<double>(asked.max_num_batched_tokens) + gpus / 8 * 1e9;
    if (account.total_bytes > 60 * 1073741824.0) reserve = std::max(reserve, 10e9);
    account.utilization = asked.memory_share > 0 ? asked.memory_share : 1 - reserve / account.total_bytes;
  }
  return account;
}

serving::MachineStepTime::Options step_options(const Run& run, const kv::Compression& setting, const Model& model,
                                               const kv::RecordedScores& scores, double entry_share,
                                               std::int64_t context) {
  const Setting& asked = run.setting;
  // Kinds of layers: those of the uncompressed cache.
  const kv::CacheTimeline plain({model, kv::Compression{}, asked.page_size, asked.layout, 1}, scores, 64);
  const kv::CacheTimeline compressed(
      {model, setting, asked.page_size, asked.layout, 1, {}, {}, asked.loss.score_window}, scores, context);
  const std::vector<kv::LayerAttention> attention = plain.attention();
  const std::int64_t rank = fullest_rank(compressed.cache(), asked);
  const std::vector<kv::LayerAttention> read = compressed.attention();
  const EntryWork of_whole = entry_work(read, asked, rank, false), of_windows = entry_work(read, asked, rank, true);
  const HeldEntries entries = held_entries(kv::part_of_rank(compressed.cache(), rank, asked.tensor_parallel));
  const kv::Digests digests = kv::digests_of_steps(setting);
  const bool is_chosen = std::ranges::any_of(read, [](const auto& layer) { return !layer.selection.empty(); });
  serving::MachineStepTime::Options options;
  options.iteration.shape = decoder_shape(model, asked, attention);
  options.iteration.page_size = asked.page_size;
  options.largest_capture = serving::largest_captured_batch(asked.serving->max_num_seqs);
  options.swap_bytes = rank_entry_bytes(run, model, entry_share);
  for (const kv::LayerAttention& layer : attention) {
    gpu::CachedLayer& cached = options.iteration.cache.emplace_back();
    cached.num_layers = layer.num_layers;
    cached.num_kv_heads = std::max<std::int64_t>(1, layer.kind.num_kv_heads);
    cached.head_dim = std::max<std::int64_t>(1, layer.work.head_dim);
    cached.window = layer.kind.kind == AttentionKind::linear_attention ? 1 : layer.kind.window;
    const auto bytes = static_cast<double>(layer.kind.k_bytes + layer.kind.v_bytes);  // of a token, all heads
    cached.entry_bytes =
        static_cast<Bytes>(std::max(1.0, std::round(bytes / static_cast<double>(cached.num_kv_heads))));
    const bool is_window = layer.kind.window > 0;
    const EntryWork& work = is_window ? of_windows : of_whole;
    if (!kv::is_compressed(layer.kind, setting) || setting.stages.empty() || work.bytes == 0) continue;
    cached.entry_bytes = static_cast<Bytes>(std::max(1.0, std::round(work.bytes)));
    cached.chunk_bytes = static_cast<Bytes>(std::max(1.0, std::round(work.chunk_bytes)));
    if (!is_window) cached.keep_ratio = std::clamp(entries.read / entries.held, 1e-6, 1.0);
    cached.dequantized_elements = work.dequantized_elements;
    cached.reconstruction_macs = work.reconstruction_macs;
    // A page of what is held; the others of the context may lie in host memory, their digests do not.
    if (is_chosen) {
      cached.digest_entries = static_cast<double>(digests.page) * entries.held / entries.positions;
      cached.digest_vectors = digests.vectors;
    }
    cached.fp8_entries = work.fp8_entries;
    cached.fp8_bytes = work.fp8_bytes;
  }
  options.compression = compression_of(run, setting, model, compressed);
  return options;
}

serving::EngineSettings engine_settings(const Run& run, const serving::MemoryAccount& account, std::int64_t num_blocks,
                                        const serving::CacheGrowth& growth) {
  const ServingSetting& asked = *run.setting.serving;
  serving::EngineSettings engine{.num_blocks = num_blocks,
                                 .block_size = run.setting.page_size,
                                 .max_num_seqs = asked.max_num_seqs,
                                 .max_num_batched_tokens = asked.max_num_batched_tokens,
                                 .prefix_caching = asked.prefix_caching,
                                 .watermark = asked.watermark};
  if (asked.engine == "trtllm" && asked.evicts_none) engine.reservation = serving::Reservation::whole_output;
  if (asked.engine == "sglang") {
    engine.reservation = serving::Reservation::estimated_output;
    engine.prefill_first = true;
  }
  engine.policy = asked.scheduling;
  const double block_bytes = account.kv_bytes_per_token * static_cast<double>(engine.block_size);
  engine.host_blocks = static_cast<std::int64_t>(asked.swap_space / block_bytes);
  engine.growth = growth;
  return engine;
}

serving::Fleet fleet_of(const Run& run, const Model& model, const gpu::GpuProfile& profile, double entry_share,
                        const serving::EngineSettings& engine) {
  const ServingSetting& asked = *run.setting.serving;
  serving::Fleet fleet{.engine = engine, .replicas = asked.replicas, .routing = asked.routing};
  if (asked.prefill_replicas == 0) return fleet;
  fleet.prefill_replicas = asked.prefill_replicas;
  const auto ranks = static_cast<double>(run.setting.tensor_parallel * run.setting.pipeline_parallel);
  const bool is_given = asked.transfer_bandwidth > 0;
  fleet.transfer_bandwidth = is_given ? asked.transfer_bandwidth : profile.interconnect.link_bandwidth * ranks;
  fleet.transfer_latency = is_given ? asked.transfer_latency : profile.interconnect.link_latency;
  fleet.bytes_per_token = entry_bytes(model, entry_share);
  if (!(fleet.transfer_bandwidth > 0)) {
    throw InputError(fmt::format(
        "engine.disaggregation: the profile of {} names no link between GPUs: expected bandwidth: \"50 GB/s\"",
        profile.name));
  }
  return fleet;
}

}  // namespace kvtide::experiment

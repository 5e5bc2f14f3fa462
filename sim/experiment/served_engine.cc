#include "experiment/served_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "experiment/served_decode.h"
#include "serving/captured_batch.h"

namespace kvtide::experiment {
namespace {

/// Of all layers on one rank.
double rank_bytes_per_token(const Run& run, const Model& model, double entry_share) {
  return static_cast<double>(model.kv_bytes_per_token()) * entry_share /
         static_cast<double>(cache_division(model, run.setting));
}

const kv::Quantize* quantize_stage(const kv::Compression& setting) {
  for (const kv::Stage& stage : setting.stages) {
    if (const auto* quantize = std::get_if<kv::Quantize>(&stage)) return quantize;
  }
  return nullptr;
}

}  // namespace

CompressedShare compressed_share(const Run& run, const kv::Compression& setting, const Model& model,
                                 const kv::RecordedScores& scores, std::int64_t context) {
  const kv::ServedCache served = kv::serve(model, setting, scores, context);
  double entries = 0, positions = 0;
  for (const kv::DistinctLayer& layer : served.layers) {
    for (const kv::HeadCache& head : layer.cache.heads) {
      for (const kv::Segment& segment : head.segments) entries += static_cast<double>(segment.num_entries);
      positions += static_cast<double>(head.num_positions);
    }
  }
  const auto bytes_of = [&](const kv::Compression& one) {
    return static_cast<double>(
        kv::sequence_bytes(kv::serve(model, one, scores, context), run.setting.page_size, run.setting.layout).total);
  };
  if (positions == 0 || setting.stages.empty()) return {};
  CompressedShare share;
  share.entries = std::clamp(entries / positions, 1e-6, 1.0);
  share.bytes = bytes_of(setting) / (bytes_of(kv::Compression{}) * share.entries);
  return share;
}

serving::CacheGrowth cache_growth(const kv::Compression& setting, const CompressedShare& share, std::int64_t context) {
  serving::CacheGrowth growth;
  if (share.entries < 1) {
    growth.always_kept = std::min(context, setting.sinks + setting.window);
    growth.interval = setting.block_size;
    const auto compressed = static_cast<double>(growth.compressed(context));
    const double kept = share.entries * static_cast<double>(context) - (static_cast<double>(context) - compressed);
    if (compressed > 0) growth.keep_ratio = std::clamp(kept / compressed, 1e-3, 1.0);
  } else if (const kv::Quantize* quantize = quantize_stage(setting); quantize != nullptr && quantize->residual > 1) {
    growth.interval = quantize->residual;  // flushed at once
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
  account.kv_bytes_per_token = rank_bytes_per_token(run, model, entry_share);
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
                                               const kv::RecordedScores& scores, double entry_share) {
  const Setting& asked = run.setting;
  // Kinds of layers: those of the uncompressed cache.
  const kv::CacheTimeline plain({model, kv::Compression{}, asked.page_size, asked.layout, 1}, scores, 64);
  const std::vector<kv::LayerAttention> attention = plain.attention();
  const kv::Quantize* quantize = quantize_stage(setting);
  const bool is_converted = quantize != nullptr && quantize->k_format.rfind("fp8", 0) != 0;
  serving::MachineStepTime::Options options;
  options.iteration.shape = decoder_shape(model, asked, attention);
  options.iteration.page_size = asked.page_size;
  options.largest_capture = serving::largest_captured_batch(asked.serving->max_num_seqs);
  options.swap_bytes = rank_bytes_per_token(run, model, entry_share);
  double layer_bytes = 0;
  for (const kv::LayerAttention& layer : attention) {
    const bool is_compressed = layer.kind.kind == AttentionKind::full_attention;
    const double bytes = static_cast<double>(layer.kind.k_bytes + layer.kind.v_bytes);  // of a token, all heads
    const auto heads = static_cast<double>(std::max<std::int64_t>(1, layer.kind.num_kv_heads));
    gpu::CachedLayer cached;
    cached.num_layers = layer.num_layers;
    cached.num_kv_heads = std::max<std::int64_t>(1, layer.kind.num_kv_heads);
    cached.head_dim = std::max<std::int64_t>(1, layer.work.head_dim);
    cached.entry_bytes =
        static_cast<Bytes>(std::max(1.0, std::round(bytes / heads * (is_compressed ? entry_share : 1.0))));
    cached.window = layer.kind.kind == AttentionKind::linear_attention ? 1 : layer.kind.window;
    cached.is_dequantized = is_compressed && is_converted;
    options.iteration.cache.push_back(cached);
    if (is_compressed) layer_bytes = std::max(layer_bytes, bytes);
  }
  if (!setting.stages.empty()) {
    const auto ranks = static_cast<double>(cache_division(model, asked)) / static_cast<double>(asked.pipeline_parallel);
    options.compression = {
        .read_bytes = layer_bytes / ranks,
        .write_bytes = layer_bytes / ranks * entry_share,
        .flops = 4 * layer_bytes / 2 / ranks,  // scale, clamp, shift and pack an element
        .is_every_token = quantize != nullptr && setting.stages.size() == 1 && quantize->residual <= 1};
  }
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
  fleet.bytes_per_token = static_cast<double>(model.kv_bytes_per_token()) * entry_share;
  if (!(fleet.transfer_bandwidth > 0)) {
    throw InputError(fmt::format(
        "engine.disaggregation: the profile of {} names no link between GPUs: expected bandwidth: \"50 GB/s\"",
        profile.name));
  }
  return fleet;
}

}  // namespace kvtide::experiment

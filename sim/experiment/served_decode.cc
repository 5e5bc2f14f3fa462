#include "experiment/served_decode.h"

#include <algorithm>

#include "kv/partition.h"

namespace kvtide::experiment {
namespace {

constexpr std::int64_t kStateElementBytes = 4;  // states of linear layers are kept in 32 bit

gpu::AttentionLayer layer_of(const kv::LayerAttention& attention, const Model& model) {
  gpu::AttentionLayer layer{.num_kv_heads = attention.kind.num_kv_heads, .head_dim = attention.work.head_dim};
  if (attention.kind.kind == AttentionKind::linear_attention) {
    layer.head_dim = model.head_dim;
    layer.state_bytes = model.state_elements * kStateElementBytes;
  }
  return layer;
}

}  // namespace

std::int64_t num_decode_steps(const kv::Compression& setting, std::int64_t context_tokens) {
  constexpr std::int64_t kFewest = 64;
  constexpr std::int64_t kMost = 1024;
  return std::min(std::clamp(setting.block_size * 5 / 2, kFewest, kMost), context_tokens - 1);
}

gpu::DecoderShape decoder_shape(const Model& model, const Setting& setting,
                                const std::vector<kv::LayerAttention>& attention) {
  gpu::DecoderShape shape{.num_layers = model.num_layers,
                          .hidden_size = model.hidden_size,
                          .num_query_heads = model.num_query_heads,
                          .num_kv_heads = model.num_kv_heads,
                          .head_dim = model.head_dim,
                          .intermediate_size = model.intermediate_size,
                          .vocab_size = model.vocab_size,
                          .weight_bytes_per_element = model.weight_bytes_per_parameter};
  shape.has_gated_mlp = model.weights.has_gated_mlp;
  const Experts& experts = model.experts;
  if (experts.num_experts > 0) {
    shape.experts = {.num_experts = experts.num_experts,
                     .num_active = experts.num_active,
                     .intermediate_size = experts.intermediate_size,
                     .shared_intermediate_size = experts.shared_intermediate_size,
                     .first_layer = model.num_layers - experts.num_layers};
    // Configurations whose layers are all experts give no width of a dense MLP.
    shape.intermediate_size = std::max(shape.intermediate_size, experts.intermediate_size);
  }
  const LatentAttention& latent = model.latent;
  shape.latent = {latent.query_rank, latent.kv_rank, latent.rope_dim, latent.nope_dim, latent.value_dim};
  for (const kv::LayerAttention& layer : attention)
    shape.layers.insert(shape.layers.end(), static_cast<std::size_t>(layer.num_layers), layer_of(layer, model));
  shape.tensor_parallel = setting.tensor_parallel;
  shape.expert_parallel = setting.expert_parallel;
  shape.pipeline_parallel = setting.pipeline_parallel;
  return shape;
}

std::int64_t cache_division(const Model& model, const Setting& setting) {
  const bool is_latent = model.latent.kv_rank > 0;
  return setting.pipeline_parallel * (is_latent ? 1 : std::min(setting.tensor_parallel, model.num_kv_heads));
}

Bytes weight_bytes_per_gpu(const Model& model, const Setting& setting) {
  const Bytes all = model.weight_bytes();
  const auto stages = static_cast<Bytes>(setting.pipeline_parallel);
  const Bytes gpus = static_cast<Bytes>(setting.tensor_parallel) * stages;
  if (setting.expert_parallel == 1) return all / gpus;
  const Experts& experts = model.experts;
  const std::int64_t matrices = model.weights.has_gated_mlp ? 3 : 2;
  const auto repeated = static_cast<Bytes>(experts.num_layers * matrices * model.weight_bytes_per_parameter) *
                        static_cast<Bytes>(experts.shared_intermediate_size) * static_cast<Bytes>(model.hidden_size);
  return (all - repeated) / gpus + repeated / stages;
}

SteppedDecode step_through(const Run& run, const kv::Compression& setting, const Model& model, gpu::Gpu& gpu,
                           const kv::RecordedScores& scores, std::int64_t num_steps, const gpu::StepObserver& observe) {
  const Setting& asked = run.setting;
  kv::CacheTimeline cache({model, setting, asked.page_size, asked.layout, asked.batch}, scores,
                          asked.context_tokens + kv::mean_padding(setting) - num_steps);
  SteppedDecode decode;
  decode.first_position = asked.context_tokens - num_steps + 1;
  const gpu::DecoderShape shape = decoder_shape(model, asked, cache.attention());
  const auto work_of = [&](std::int64_t) {
    const kv::CacheEvent event = cache.append();
    const gpu::CompressBlocksWork compression = cache.compression_work(event);
    const bool compresses = compression.num_blocks > 0;
    if (compresses) decode.compressed_blocks += std::max<std::int64_t>(event.completed_blocks, 1);
    gpu::IterationWork work;
    work.batch = asked.batch;
    for (const kv::LayerAttention& layer : cache.attention()) {
      const auto count = static_cast<std::size_t>(layer.num_layers);
      work.attention.insert(work.attention.end(), count, layer.work);
      // Windows and states are not compressed.
      const bool is_compressed = layer.kind.kind == AttentionKind::full_attention;
      if (compresses)
        work.compression.insert(work.compression.end(), count, is_compressed ? compression : gpu::CompressBlocksWork{});
    }
    return work;
  };
  decode.records = gpu::decode_timeline(gpu, shape, num_steps, work_of, observe);
  return decode;
}

}  // namespace kvtide::experiment

#include "experiment/served_decode.h"

#include <algorithm>
#include <cmath>

#include "kv/partition.h"

namespace kvtide::experiment {
namespace {

constexpr std::int64_t kStateElementBytes = 4;  // states of linear layers are kept in 32 bit

gpu::AttentionLayer layer_of(const kv::LayerAttention& attention, const Model& model) {
  gpu::AttentionLayer layer{
      .num_kv_heads = attention.kind.num_kv_heads,
      // The kernel's width over latent rows is a mean; what is stored and turned is latent + rotary.
      .head_dim = attention.kind.is_latent ? model.head_dim : attention.work.head_dim};
  if (attention.kind.kind == AttentionKind::linear_attention) {
    layer.head_dim = model.head_dim;
    layer.state_bytes = model.state_elements * kStateElementBytes;
  }
  return layer;
}

std::int64_t rounded_up(std::int64_t value, std::int64_t multiple) {
  return ceil_div(value, multiple) * multiple;
}

/// What kernels of fp4 experts add on each rank of a stage with all layers: vLLM's Marlin takes a hidden size that is a multiple of 256
/// and 128 rows of an expert. Where sizes are such multiples (nearly everywhere but in gpt-oss) nothing.
Bytes expert_padding(const Model& model, const Setting& setting) {
  const Experts& experts = model.experts;
  if (setting.weights.format != WeightFormat::mxfp4 || experts.num_experts == 0) return 0;
  const bool is_whole = setting.expert_parallel > 1;
  const std::int64_t held = is_whole ? experts.num_experts / setting.expert_parallel : experts.num_experts;
  const std::int64_t width =
      is_whole ? experts.intermediate_size : ceil_div(experts.intermediate_size, setting.tensor_parallel);
  const std::int64_t padding = rounded_up(model.hidden_size, 256) * rounded_up(width, 128) - model.hidden_size * width;
  const std::int64_t matrices = experts.num_layers * held * (model.weights.has_gated_mlp ? 3 : 2);
  return static_cast<Bytes>(static_cast<double>(matrices) * static_cast<double>(padding) *
                            bytes_per_weight(setting.weights));
}

/// Layers: stages differ by one at most.
std::int64_t largest_stage(const Model& model, const Setting& setting) {
  return ceil_div(model.num_layers, setting.pipeline_parallel);
}

kv::CacheTimeline timeline_at(const Run& run, const kv::Compression& setting, const Model& model,
                              const kv::RecordedScores& scores, std::int64_t context_tokens) {
  const Setting& asked = run.setting;
  return {{model, setting, asked.page_size, asked.layout, asked.batch, asked.schedule, asked.sharing,
           asked.loss.score_window},
          scores,
          context_tokens + kv::mean_padding(setting)};
}

struct CacheStep {
  gpu::IterationWork work;
  Picoseconds recall{0};
};

/// A step of `batch` sequences after the append that `event` tells of.
CacheStep cache_step(const kv::CacheTimeline& cache, const kv::CacheEvent& event, std::int64_t batch,
                     const Setting& asked, gpu::Gpu& gpu) {
  CacheStep step;
  step.work.batch = batch;
  const gpu::CompressBlocksWork compression = cache.compression_work(event, batch);
  for (const kv::LayerAttention& layer : cache.attention(batch)) {
    const auto count = static_cast<std::size_t>(layer.num_layers);
    step.work.attention.insert(step.work.attention.end(), count, layer.work);
    step.work.selection.insert(step.work.selection.end(), count, layer.selection);
    if (compression.num_blocks > 0) {
      const std::size_t stored = layer.is_compressed ? static_cast<std::size_t>(layer.num_stored_layers) : 0;
      step.work.compression.insert(step.work.compression.end(), stored, compression);
      step.work.compression.insert(step.work.compression.end(), count - stored, gpu::CompressBlocksWork{});
    }
    if (layer.is_compressed && asked.schedule.recall > 0)
      step.recall += gpu.host_transfer(recall_work(rank_attention(layer, asked), asked.schedule.recall)).duration *
                     layer.num_layers;
  }
  return step;
}

/// @param cache  at the context before the first step
SteppedDecode step_on(kv::CacheTimeline& cache, const Run& run, const Model& model, gpu::Gpu& gpu,
                      std::int64_t first_position, std::int64_t num_steps, const gpu::StepObserver& observe,
                      std::int64_t other_batch) {
  SteppedDecode decode;
  decode.first_position = first_position;
  const gpu::DecoderShape shape = decoder_shape(model, run.setting, cache.attention());
  std::vector<Picoseconds> recalls;
  Picoseconds other_start{0};
  const auto work_of = [&](std::int64_t step_index) {
    const kv::CacheEvent event = cache.append();
    CacheStep step = cache_step(cache, event, run.setting.batch, run.setting, gpu);
    if (!step.work.compression.empty()) decode.compressed_blocks += cache.compressed_blocks(event);
    recalls.push_back(step.recall);
    if (other_batch > 0) {
      const CacheStep other = cache_step(cache, event, other_batch, run.setting, gpu);
      gpu::DecodeStepRecord record =
          gpu::step_record(gpu::time_iteration(gpu, shape, other.work), step_index, other_start);
      record.duration += other.recall;
      other_start += record.duration;
      decode.other_records.push_back(record);
    }
    return step.work;
  };
  decode.records = gpu::decode_timeline(gpu, shape, num_steps, work_of, observe);
  // The link is waited for layer by layer; the kernels beside it are as they are.
  for (std::size_t step = 0; step < decode.records.size(); ++step) {
    decode.records[step].start += decode.recall_duration;
    decode.records[step].duration += recalls[step];
    decode.recall_duration += recalls[step];
  }
  return decode;
}

}  // namespace

std::int64_t compression_period(const kv::Compression& setting, const kv::CacheSchedule& schedule) {
  if (schedule.decode_target > 0) return schedule.decode_every;
  std::int64_t period = setting.block_size;
  for (const kv::Stage& stage : setting.stages) {
    if (const auto* quantize = std::get_if<kv::Quantize>(&stage)) period = std::max(period, quantize->residual);
  }
  return period;
}

std::int64_t num_decode_steps(const kv::Compression& setting, const kv::CacheSchedule& schedule,
                              std::int64_t context_tokens) {
  constexpr std::int64_t kFewest = 64;
  constexpr std::int64_t kMost = 1024;
  return std::min(std::clamp(compression_period(setting, schedule) * 5 / 2, kFewest, kMost),
                  std::max<std::int64_t>(1, context_tokens - 1));
}

gpu::OperandFormat operand_format(WeightFormat format) {
  switch (format) {
    case WeightFormat::bf16:
      return gpu::OperandFormat::bfloat16;
    case WeightFormat::fp8:
      return gpu::OperandFormat::fp8;
    case WeightFormat::fp8_block:
      return gpu::OperandFormat::fp8_block;
    case WeightFormat::w8a8:
      return gpu::OperandFormat::sq;
    case WeightFormat::w8a16:
      return gpu::OperandFormat::int8_wo;
    case WeightFormat::w4a16:
      return gpu::OperandFormat::int4_wo;
    case WeightFormat::nvfp4:
      return gpu::OperandFormat::nvfp4;
    case WeightFormat::mxfp4:
      return gpu::OperandFormat::mxfp4_wo;
  }
  return gpu::OperandFormat::bfloat16;
}

gpu::DecoderShape decoder_shape(const Model& model, const Setting& setting,
                                const std::vector<kv::LayerAttention>& attention) {
  gpu::DecoderShape shape{.num_layers = model.num_layers,
                          .hidden_size = model.hidden_size,
                          .num_query_heads = model.num_query_heads,
                          .num_kv_heads = model.num_kv_heads,
                          .head_dim = model.head_dim,
                          .intermediate_size = model.intermediate_size,
                          .vocab_size = model.vocab_size};
  const gpu::OperandFormat narrow = operand_format(setting.weights.format);
  shape.mlp_format = narrow;
  if (!setting.weights.keeps_attention) shape.attention_format = narrow;
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

double fullest_gpu_division(const Model& model, const Setting& setting) {
  const std::int64_t ranks = cache_division(model, setting) / setting.pipeline_parallel;
  return static_cast<double>(ranks * model.num_layers) / static_cast<double>(largest_stage(model, setting));
}

Bytes weight_bytes_per_gpu(const Model& model, const Setting& setting) {
  const auto layers = static_cast<Bytes>(model.num_layers);
  const auto held = static_cast<Bytes>(largest_stage(model, setting));
  const auto ranks = static_cast<Bytes>(setting.tensor_parallel);
  const Bytes all = model.weight_bytes(setting.weights);
  const Bytes padding = expert_padding(model, setting) * held / layers;
  if (setting.expert_parallel == 1) return all * held / (ranks * layers) + padding;
  const Experts& experts = model.experts;
  const std::int64_t matrices = model.weights.has_gated_mlp ? 3 : 2;
  const auto repeated = static_cast<Bytes>(
      static_cast<double>(experts.num_layers * matrices) * bytes_per_weight(setting.weights) *
      static_cast<double>(experts.shared_intermediate_size) * static_cast<double>(model.hidden_size));
  return (all - repeated) * held / (ranks * layers) + repeated * held / layers + padding;
}

gpu::DecodeAttentionWork rank_attention(const kv::LayerAttention& layer, const Setting& setting) {
  return gpu::share_of_rank(layer.work, layer.kind.num_kv_heads, layer.kind.is_latent, setting.tensor_parallel);
}

double fullest_gpu_bytes(const kv::ServedCache& cache, const Model& model, const Setting& setting) {
  const std::vector<Bytes> ranks = kv::rank_bytes(cache, setting.page_size, setting.layout, setting.tensor_parallel);
  return static_cast<double>(*std::ranges::max_element(ranks)) * static_cast<double>(largest_stage(model, setting)) /
         static_cast<double>(model.num_layers);
}

gpu::HostTransferWork recall_work(const gpu::DecodeAttentionWork& attention, kv::PartsPerMillion recall) {
  double bytes = 0, pieces = 0;
  for (const gpu::AttentionTask& task : attention.tasks) {
    for (const gpu::PageStream& stream : task.streams) {
      const double read = static_cast<double>(stream.bytes) * static_cast<double>(task.count);
      bytes += read;
      pieces += read / static_cast<double>(std::max<Bytes>(1, stream.chunk_bytes));
    }
  }
  const double share = static_cast<double>(recall) * 1e-6;
  return {.bytes = static_cast<Bytes>(std::llround(bytes * share)),
          .num_pieces = static_cast<std::int64_t>(std::ceil(pieces * share))};
}

Run uncompressed(Run run) {
  run.setting.schedule = {};
  run.setting.sharing = {};
  return run;
}

SteppedDecode step_through(const Run& run, const kv::Compression& setting, const Model& model, gpu::Gpu& gpu,
                           const kv::RecordedScores& scores, std::int64_t num_steps, const gpu::StepObserver& observe,
                           std::int64_t other_batch) {
  const std::int64_t before = run.setting.context_tokens - num_steps;
  kv::CacheTimeline cache = timeline_at(run, setting, model, scores, before);
  return step_on(cache, run, model, gpu, before + 1, num_steps, observe, other_batch);
}

std::optional<SteppedDecode> step_into_compression(const Run& run, const kv::Compression& setting, const Model& model,
                                                   gpu::Gpu& gpu, const kv::RecordedScores& scores,
                                                   std::int64_t other_batch) {
  // Two periods: the state before the last compression is then what the one before it left.
  const std::int64_t steps =
      std::min(2 * compression_period(setting, run.setting.schedule) + 1, run.setting.context_tokens - 1);
  const std::int64_t before = run.setting.context_tokens - steps;
  kv::CacheTimeline search = timeline_at(run, setting, model, scores, before);
  std::int64_t last = 0;
  for (std::int64_t step = 1; step <= steps; ++step) {
    if (search.compressed_blocks(search.append()) > 0) last = step;
  }
  if (last < 2) return std::nullopt;
  kv::CacheTimeline cache = timeline_at(run, setting, model, scores, before);
  for (std::int64_t step = 0; step < last - 2; ++step) (void)cache.append();
  return step_on(cache, run, model, gpu, before + last - 1, 2, {}, other_batch);
}

}  // namespace kvtide::experiment

#include "kv/cache_timeline.h"

#include <algorithm>

#include "gpu/select_pages.h"
#include "kv/compression/codec.h"
#include "kv/compression/scorer.h"
#include "kv/compression_work.h"
#include "kv/partition.h"

namespace kvtide::kv {
namespace {

/// The setting's quantize stage, null without one.
const Quantize* quantize_of(const Compression& setting) {
  for (const Stage& stage : setting.stages) {
    if (const auto* quantize = std::get_if<Quantize>(&stage)) return quantize;
  }
  return nullptr;
}

/// Whether nothing but integers come of a block: then a block that fills is no event where a residual decides.
bool quantizes_alone(const Compression& setting) {
  return setting.stages.size() == 1 && quantize_of(setting) != nullptr;
}

constexpr std::string_view kOperands = "fp8_e4m3";  ///< the codec whose codes 8-bit kernels take as they are

/// Whether an engine would write each new entry as fp8: nothing stays in fp16, no block has to fill first.
bool writes_fp8(const Compression& setting, bool is_latent) {
  const Quantize* quantize = quantize_of(setting);
  if (quantize == nullptr || setting.sinks > 0 || setting.window > 0 || !setting.anchors.empty()) return false;
  return quantize->residual == 0 && quantize->k_format == kOperands && (is_latent || quantize->v_format == kOperands);
}

std::int64_t count_free(const Compression& setting, std::int64_t num_positions) {
  const std::vector<Block> blocks = partition_blocks(setting, num_positions);
  return std::ranges::count(blocks, false, &Block::is_protected);
}

/// Adds entries that follow the cache in fp16.
void append_exact(LayerCache& layer, std::int64_t num_entries, std::int64_t head_dim, bool is_latent) {
  if (num_entries == 0) return;
  const StoredForm form{StoredForm::Kind::fp16, 16, static_cast<std::int32_t>(head_dim)};
  StoredForm v_form = form;
  if (is_latent) v_form.columns = 0;
  for (HeadCache& head : layer.heads) {
    head.segments.push_back({head.num_positions, head.num_positions + num_entries, num_entries, form, v_form, 0, 0});
    head.num_positions += num_entries;
  }
}

bool is_read(const PagePool& pool) {
  return pool.num_pages > 0 && pool.payload_bytes > 0;  // latent attention stores no V
}

void add_pools(const std::vector<PagePool>& pools, std::int64_t page_size, std::int64_t head_dim,
               gpu::AttentionTask& task) {
  for (const PagePool& pool : pools) {
    if (!is_read(pool)) continue;
    task.streams.push_back({pool.payload_bytes * static_cast<Bytes>(pool.form.layers) + pool.metadata_bytes,
                            static_cast<Bytes>(page_size) * pool.form.entry_bytes()});
    const auto elements = static_cast<double>(pool.num_entries) * pool.form.columns;
    if (!pool.form.codec.empty()) task.dequantized_elements += elements * find_codec(pool.form.codec).read_cost;
    if (pool.form.kind == StoredForm::Kind::low_rank) {
      task.reconstruction_macs +=
          static_cast<double>(pool.num_entries) * pool.form.rank * static_cast<double>(head_dim);
    }
  }
}

/// Marks the fp8 entries of a task over these pools; none where other forms than fp8 and fp16 meet, or K and V differ.
/// @param is_immediate  fp16 entries only wait for their block to fill: an engine has them in fp8 already
void mark_fp8(const HeadPools& pools, bool is_immediate, gpu::AttentionTask& task) {
  std::vector<bool> is_fp8;  // [stream]
  const auto fp8_entries = [&](const std::vector<PagePool>& of_tensor) {
    std::int64_t entries = 0;
    for (const PagePool& pool : of_tensor) {
      if (!is_read(pool)) continue;
      const bool is_fp16 = pool.form.kind == StoredForm::Kind::fp16;
      const bool is_code = pool.form.kind == StoredForm::Kind::coded && pool.form.codec == kOperands;
      if (!is_fp16 && !is_code) return std::int64_t{-1};
      is_fp8.push_back(is_code || is_immediate);
      if (is_fp8.back()) entries += pool.num_entries;
    }
    return entries;
  };
  const std::int64_t k_entries = fp8_entries(pools.k), v_entries = fp8_entries(pools.v);
  const bool is_latent = std::ranges::none_of(pools.v, is_read);
  if (k_entries <= 0 || (!is_latent && v_entries != k_entries)) return;
  task.fp8_entries = k_entries;
  // Pages that only other heads need are read with the codes where this head has nothing else.
  const bool is_all = k_entries == task.num_entries;
  for (std::size_t stream = 0; stream < is_fp8.size(); ++stream) task.streams[stream].is_fp8 = is_all || is_fp8[stream];
}

std::int64_t num_entries(const std::vector<PagePool>& pools) {
  std::int64_t sum = 0;
  for (const PagePool& pool : pools) sum += pool.num_entries;
  return sum;
}

}  // namespace

CacheTimeline::CacheTimeline(Geometry geometry, RecordedScores recorded, std::int64_t prompt_positions)
    : geometry_(std::move(geometry)), recorded_(std::move(recorded)), num_positions_(prompt_positions) {
  for (Stage& stage : geometry_.setting.stages) {
    auto* quantize = std::get_if<Quantize>(&stage);
    if (quantize != nullptr && quantize->residual_start == kFromPrompt) quantize->residual_start = prompt_positions;
  }
  rebuild();
}

void CacheTimeline::rebuild() {
  cache_ = serve(geometry_.model, at_target(geometry_.setting, geometry_.schedule, num_positions_), recorded_,
                 num_positions_, geometry_.sharing);
  num_free_blocks_ = count_free(geometry_.setting, num_positions_);
  num_appended_ = 0;
}

ServedCache CacheTimeline::held() const {
  ServedCache now = cache_;
  now.num_positions = num_positions_;
  for (DistinctLayer& layer : now.layers) {
    if (layer.kind.window > 0) {
      layer.cache = windowed_cache(layer, geometry_.setting, num_positions_);
    } else {
      append_exact(layer.cache, num_appended_, layer.head_dim, layer.kind.is_latent);
    }
    if (layer.merged > 0)
      layer.merged = merged_bytes(geometry_.sharing, num_positions_, layer.head_dim, layer.kind.is_latent);
  }
  return now;
}

CacheEvent CacheTimeline::append() {
  if (const CacheSchedule& schedule = geometry_.schedule; schedule.decode_target > 0) {
    CacheEvent event;
    if (num_appended_ >= schedule.decode_every && num_positions_ > schedule.decode_target) {
      event.recompressed_positions = std::min(num_positions_, schedule.decode_target + num_appended_);
      rebuild();
    }
    ++num_appended_;
    event.num_positions = ++num_positions_;
    return event;
  }
  ++num_positions_;
  ++num_appended_;
  CacheEvent event{.num_positions = num_positions_};
  const Quantize* quantize = quantize_of(geometry_.setting);
  const std::int64_t residual = quantize == nullptr ? 0 : quantize->residual;
  if (residual > 0) {
    if ((num_positions_ - quantize->residual_start) % residual == 0) event.flushed_positions = residual;
    const bool is_one_by_one = quantize->residual_start == 0;
    event.flushed_values = !is_one_by_one ? event.flushed_positions : num_positions_ > residual ? 1 : 0;
  }
  const std::int64_t free_now = count_free(geometry_.setting, num_positions_);
  event.completed_blocks = std::max<std::int64_t>(0, free_now - num_free_blocks_);
  const bool changes = !geometry_.setting.stages.empty() && (free_now != num_free_blocks_ || residual > 0);
  if (changes) {
    rebuild();
  } else {
    num_free_blocks_ = free_now;
  }
  return event;
}

std::vector<LayerAttention> CacheTimeline::attention(std::int64_t batch) const {
  std::vector<LayerAttention> layers;
  ServedCache now = held();
  const Digests digests = digests_of_steps(geometry_.setting);
  for (DistinctLayer& distinct : now.layers) {
    const LayerKind& kind = distinct.kind;
    const bool has_window = kind.window > 0;
    LayerCache& layer = distinct.cache;
    LayerAttention& attention = layers.emplace_back();
    attention.num_layers = distinct.num_layers;
    attention.num_stored_layers = distinct.num_stored_layers;
    attention.kind = kind;
    attention.work.head_dim = std::max<std::int64_t>(1, distinct.head_dim);
    attention.work.is_latent = kind.is_latent;
    if (const LatentAttention& latent = geometry_.model.latent; kind.is_latent && latent.kv_rank > 0)
      attention.work.head_dim = gpu::mean_product_width(latent.kv_rank, latent.rope_dim);
    attention.work.query_heads_per_task =
        std::max<std::int64_t>(1, geometry_.model.num_query_heads / std::max<std::int64_t>(1, kind.num_kv_heads));
    attention.work.has_window = has_window;
    attention.work.num_sequences = batch;
    attention.work.interleaves_groups = batch > 1 && kind.num_kv_heads > 1;
    attention.is_compressed = is_compressed(kind, geometry_.setting);
    const bool is_immediate = attention.is_compressed && writes_fp8(geometry_.setting, kind.is_latent);
    gpu::PageSelection selection{.digest_vectors = digests.vectors,
                                 .head_dim = distinct.head_dim,
                                 .num_queries = attention.work.query_heads_per_task};
    for (std::size_t head = 0; head < layer.heads.size(); ++head) {
      HeadCache& cache = layer.heads[head];
      if (digests.page > 0 && !(cache.unread.empty() && cache.host.empty())) {
        // The choosing kernel reads the digests, attention does not.
        const std::int64_t compressed = num_positions_ - num_appended_;
        const auto digest_bytes = static_cast<Bytes>(digests.vectors_of(compressed) * distinct.head_dim * 2);
        Bytes& metadata = cache.segments.front().k_metadata;
        metadata -= std::min(metadata, digest_bytes);
        std::int64_t kept = 0;
        for (const Segment& segment : cache.segments) kept += segment.num_entries;
        const std::int64_t pages = ceil_div(compressed, digests.page);
        selection.lists.push_back(
            {pages, std::min(pages, ceil_div(kept, digests.page)), distinct.heads_of_distinct[head] * batch});
      }
      cache.unread.clear();
    }
    attention.selection = gpu::select_pages_work(selection);
    const std::vector<HeadPools> pools = layer_pools(layer, geometry_.page_size, geometry_.layout);
    for (std::size_t head = 0; head < pools.size(); ++head) {
      gpu::AttentionTask& task = attention.work.tasks.emplace_back();
      add_pools(pools[head].k, geometry_.page_size, distinct.head_dim, task);
      add_pools(pools[head].v, geometry_.page_size, distinct.head_dim, task);
      task.num_entries = num_entries(pools[head].k);
      if (distinct.merged == 0) mark_fp8(pools[head], is_immediate, task);
      if (distinct.merged > 0) task.streams.push_back({distinct.merged, distinct.merged});
      if (has_window) task.hidden_entries = num_positions_ - task.num_entries;
      task.count = distinct.heads_of_distinct[head] * batch;
      if (pools.size() > 1) task.kv_heads = distinct.served_heads(head);
    }
  }
  return layers;
}

std::int64_t CacheTimeline::compressed_blocks(const CacheEvent& event) const {
  const std::int64_t size = geometry_.setting.block_size;
  const bool waits = quantizes_alone(geometry_.setting) && quantize_of(geometry_.setting)->residual > 0;
  return std::max(
      {waits ? 0 : event.completed_blocks, event.flushed_positions / size, event.recompressed_positions / size});
}

gpu::CompressBlocksWork CacheTimeline::compression_work(const CacheEvent& event, std::int64_t batch) const {
  return kv::compression_work(geometry_, event, num_positions_, compressed_blocks(event), batch);
}

}  // namespace kvtide::kv

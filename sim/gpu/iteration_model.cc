#include "gpu/iteration_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "gpu/decode_attention.h"
#include "gpu/select_pages.h"

namespace kvtide::gpu {
namespace {

constexpr std::int64_t kMaxTokens = std::int64_t{1} << 40;
constexpr std::size_t kStepsKept = 1 << 16;

/// Entries of one head that a query reads.
std::int64_t kept_entries(const CachedLayer& layer, std::int64_t length) {
  if (layer.window > 0) return std::min(layer.window, length);
  const std::int64_t fixed = std::min(layer.always_kept, length);
  return fixed + static_cast<std::int64_t>(std::ceil(static_cast<double>(length - fixed) * layer.keep_ratio));
}

AttentionTask task_of(const CachedLayer& layer, std::int64_t length, std::int64_t page_size, std::int64_t count) {
  const std::int64_t entries = kept_entries(layer, length);
  const auto pages = static_cast<Bytes>(ceil_div(entries, page_size));
  const Bytes page_bytes = static_cast<Bytes>(page_size) * layer.entry_bytes;
  const Bytes chunk_bytes = layer.chunk_bytes > 0 ? layer.chunk_bytes : page_bytes;
  const Bytes bytes = pages * page_bytes;
  const auto fp8_bytes = static_cast<Bytes>(std::llround(static_cast<double>(bytes) * layer.fp8_bytes));
  AttentionTask task{.streams = {}, .num_entries = entries, .count = count};
  if (fp8_bytes < bytes) task.streams.push_back({bytes - fp8_bytes, chunk_bytes});
  if (fp8_bytes > 0) task.streams.push_back({fp8_bytes, chunk_bytes, true});
  task.fp8_entries = std::llround(static_cast<double>(entries) * layer.fp8_entries);
  if (layer.window > 0) task.hidden_entries = length - entries;
  task.dequantized_elements = static_cast<double>(entries) * layer.dequantized_elements;
  task.reconstruction_macs = static_cast<double>(entries) * layer.reconstruction_macs;
  return task;
}

}  // namespace

IterationModel::IterationModel(Gpu& gpu, Options options) : gpu_(gpu), options_(std::move(options)) {
  check(options_.shape);
  std::int64_t num_layers = 0;
  for (const CachedLayer& layer : options_.cache) num_layers += layer.num_layers;
  if (num_layers != options_.shape.num_layers || options_.page_size < 1) {
    throw InputError(fmt::format("step times: the cache describes {} layers of {}, in pages of {}", num_layers,
                                 options_.shape.num_layers, options_.page_size));
  }
}

IterationModel::Key IterationModel::key_of(const BatchShape& batch) const {
  std::map<std::int64_t, std::int64_t> counts;
  for (const std::int64_t length : batch.decode_lengths) {
    if (length < 1 || length > kMaxTokens) throw InputError(fmt::format("step times: a length of {} tokens", length));
    ++counts[ceil_div(length, options_.page_size) * options_.page_size];
  }
  Key key;
  key.first.assign(counts.begin(), counts.end());
  key.second = batch.chunks;
  for (const PromptChunk& chunk : key.second) {
    if (chunk.num_new < 1 || chunk.num_cached < 0 || chunk.num_new + chunk.num_cached > kMaxTokens)
      throw InputError(fmt::format("step times: a chunk of {} tokens after {}", chunk.num_new, chunk.num_cached));
  }
  std::ranges::sort(key.second);
  return key;
}

/// Prompt chunks against the cache; a latent is expanded to the model's heads first, in 16 bits. Approximation: chunks read every
/// earlier entry in its stored form, but convert and rebuild nothing; they are bound by their products.
PrefillAttentionWork IterationModel::prefill_of(const CachedLayer& layer,
                                                const std::vector<PromptChunk>& chunks) const {
  const DecoderShape& shape = options_.shape;
  PrefillAttentionWork work;
  for (const PromptChunk& chunk : chunks) work.sequences.push_back({chunk.num_new, chunk.num_cached, 1});
  work.heads = shape.num_query_heads;
  work.kv_heads = layer.num_kv_heads;
  work.head_dim = layer.head_dim;
  if (!shape.is_latent()) {
    work.kv_bits = layer.fp8_entries == 1 ? 8 : 16;
    work.entry_bytes = layer.entry_bytes;
  } else {
    work.kv_heads = shape.num_query_heads;
    work.head_dim = shape.latent.nope_dim + shape.latent.rope_dim;
    work.value_dim = shape.latent.value_dim;
  }
  work.window = layer.window;
  work.page_tokens = options_.page_size;
  return work;
}

/// The choice of pages that decoding sequences read.
std::vector<StreamWork> IterationModel::selection_of(const CachedLayer& layer, const Key& key) const {
  PageSelection selection{.digest_vectors = layer.digest_vectors, .head_dim = layer.head_dim};
  const DecoderShape& shape = options_.shape;
  if (shape.is_latent()) selection.head_dim = shape.latent.kv_rank + shape.latent.rope_dim;  // as stored
  selection.num_queries = std::max<std::int64_t>(1, shape.num_query_heads / layer.num_kv_heads);
  for (const auto& [length, count] : key.first) {
    const auto num_pages = [&layer](std::int64_t entries) {
      return static_cast<std::int64_t>(std::ceil(static_cast<double>(entries) / layer.digest_entries));
    };
    selection.lists.push_back({num_pages(length), num_pages(kept_entries(layer, length)), count * layer.num_kv_heads});
  }
  return select_pages_work(selection);
}

IterationModel::AttentionWork IterationModel::attention_of(const CachedLayer& layer, const Key& key) const {
  AttentionWork work;
  work.prefill = prefill_of(layer, key.second);
  work.decode.head_dim = layer.head_dim;
  work.decode.is_latent = options_.shape.is_latent();
  if (options_.shape.is_latent())
    work.decode.head_dim = mean_product_width(options_.shape.latent.kv_rank, options_.shape.latent.rope_dim);
  work.decode.query_heads_per_task = std::max<std::int64_t>(1, options_.shape.num_query_heads / layer.num_kv_heads);
  work.decode.has_window = layer.window > 0;
  work.decode.num_sequences = 0;
  for (const auto& [length, count] : key.first) {
    work.decode.tasks.push_back(task_of(layer, length, options_.page_size, count * layer.num_kv_heads));
    work.decode.num_sequences += count;
  }
  work.decode.interleaves_groups = work.decode.num_sequences > 1 && layer.num_kv_heads > 1;
  if (layer.digest_entries > 0) work.selection = selection_of(layer, key);
  if (key.first.empty() || key.second.empty() || !joins_prompts(gpu_.profile(), work.decode)) return work;
  for (const auto& [length, count] : key.first)
    work.prefill.sequences.push_back({1, std::max<std::int64_t>(1, kept_entries(layer, length)) - 1, count});
  work.decode.tasks.clear();
  return work;
}

Iteration IterationModel::iteration_of(const Key& key) {
  IterationWork work;
  work.batch = 0;
  for (const auto& [length, count] : key.first) work.batch += count;
  work.num_logits = work.batch + static_cast<std::int64_t>(key.second.size());
  for (const PromptChunk& chunk : key.second) work.batch += chunk.num_new;
  for (const CachedLayer& layer : options_.cache) {
    const AttentionWork attention = attention_of(layer, key);
    for (std::int64_t each = 0; each < layer.num_layers; ++each) {
      work.attention.push_back(attention.decode);
      work.selection.push_back(attention.selection);
      if (!key.second.empty()) work.prefill.push_back(attention.prefill);
    }
  }
  return time_iteration(gpu_, options_.shape, work);
}

Picoseconds IterationModel::attention(const BatchShape& batch) {
  const Key key = key_of(batch);
  Picoseconds sum{0};
  for (const CachedLayer& layer : options_.cache) {
    const AttentionWork whole = attention_of(layer, key);
    const std::int64_t ranks = options_.shape.tensor_parallel;
    const DecodeAttentionWork decode =
        share_of_rank(whole.decode, layer.num_kv_heads, options_.shape.is_latent(), ranks);
    if (!decode.tasks.empty()) sum += layer.num_layers * gpu_.decode_attention(decode).duration;
    for (const StreamWork& kernel : whole.selection) {
      const StreamWork own = share_of_rank(kernel, layer.num_kv_heads, options_.shape.is_latent(), ranks);
      sum += layer.num_layers * gpu_.stream(own).duration;
    }
    if (!key.second.empty()) {
      sum += layer.num_layers * gpu_.prefill_attention(share_of_rank(whole.prefill, ranks)).duration;
    }
  }
  return sum;
}

Iteration IterationModel::iteration(const BatchShape& batch) {
  return iteration_of(key_of(batch));
}

Picoseconds IterationModel::step(const BatchShape& batch) {
  if (batch.decode_lengths.empty() && batch.chunks.empty()) return Picoseconds{0};
  Key key = key_of(batch);
  {
    const std::lock_guard lock(mutex_);
    ++num_lookups_;
    if (const auto found = known_.find(key); found != known_.end()) {
      ++num_known_;
      return found->second;
    }
  }
  const Picoseconds duration = iteration_of(key).duration;
  const std::lock_guard lock(mutex_);
  if (known_.size() >= kStepsKept) known_.clear();
  known_.emplace(std::move(key), duration);
  return duration;
}

}  // namespace kvtide::gpu

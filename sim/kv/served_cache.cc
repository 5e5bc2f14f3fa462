#include "kv/served_cache.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <map>

#include "gpu/decoder_shape.h"
#include "kv/compression/first_stage.h"
#include "kv/compression/importance.h"
#include "kv/partition.h"

namespace kvtide::kv {
namespace {

std::vector<Block> free_blocks(const Compression& setting, std::int64_t num_positions) {
  std::vector<Block> blocks = partition_blocks(setting, num_positions);
  std::erase_if(blocks, [](const Block& block) { return block.is_protected; });
  return blocks;
}

std::vector<double> tiled(const std::vector<double>& recorded, const std::vector<Block>& recorded_blocks,
                          const std::vector<Block>& served_blocks, std::int64_t num_positions) {
  std::vector<double> scores(static_cast<std::size_t>(num_positions), 0.0);
  if (recorded_blocks.empty()) return scores;
  for (std::size_t block_index = 0; block_index < served_blocks.size(); ++block_index) {
    const Block& served = served_blocks[block_index];
    const Block& source = recorded_blocks[block_index % recorded_blocks.size()];
    const std::int64_t size = std::min(served.end - served.begin, source.end - source.begin);
    for (std::int64_t offset = 0; offset < size; ++offset) {
      scores[static_cast<std::size_t>(served.begin + offset)] =
          recorded[static_cast<std::size_t>(source.begin + offset)];
    }
  }
  return scores;
}

/// The evict stage when it scores positions alone (and no values, as a critical stage does): then the served context is
/// scored as it is, nothing is tiled.
const Evict* positional_stage(const Compression& setting) {
  for (const Stage& stage : setting.stages) {
    const auto* evict = std::get_if<Evict>(&stage);
    if (evict != nullptr && !evict->critical && find_scorer(evict->scorer).needs.positions_only) return evict;
  }
  return nullptr;
}

/// Index into recorded.layers of the layer nearest in relative depth; the shallower of two equally near.
std::size_t nearest_recorded(std::int64_t served_layer, std::int64_t num_served, const RecordedScores& recorded) {
  const auto depth = [](std::int64_t layer, std::int64_t count) {
    return count > 1 ? static_cast<double>(layer) / static_cast<double>(count - 1) : 0.0;
  };
  const double wanted = depth(served_layer, num_served);
  std::size_t best = 0;
  double best_distance = 2;
  for (std::size_t index = 0; index < recorded.layers.size(); ++index) {
    const double distance = std::abs(depth(recorded.layers[index], recorded.num_model_layers) - wanted);
    if (distance < best_distance) {
      best = index;
      best_distance = distance;
    }
  }
  return best;
}

/// A model built by hand may have no list of kinds: then all layers are full attention.
std::vector<LayerKind> kinds_of(const Model& model) {
  if (!model.kind_of_layer.empty()) return model.layers;
  const auto bytes = static_cast<Bytes>(model.num_kv_heads * model.head_dim * 2);
  return {{.count = model.num_layers, .k_bytes = bytes, .v_bytes = bytes, .num_kv_heads = model.num_kv_heads}};
}

/// The layer whose cache a layer without one of its own reads: the last before it that sees as far back.
std::int64_t native_owner(const Model& model, std::int64_t layer) {
  const auto kind_of = [&](std::int64_t index) -> const LayerKind& {
    return model.layers[model.kind_of_layer[static_cast<std::size_t>(index)]];
  };
  const LayerKind& shared = kind_of(layer);
  for (std::int64_t owner = layer - 1; owner >= 0; --owner) {
    const LayerKind& kind = kind_of(owner);
    if (kind.num_kv_heads > 0 && kind.window == shared.window) return owner;
  }
  return layer;
}

/// Every kind again, where it keeps the whole context with a window instead.
void add_windowed(std::vector<LayerKind>& kinds, std::int64_t window) {
  const std::vector<LayerKind> whole = kinds;
  for (LayerKind kind : whole) {
    if (is_compressible(kind)) {
      kind.kind = AttentionKind::sliding_attention;
      kind.window = window;
    }
    kinds.push_back(kind);
  }
}

/// Latent attention: the value is a view of the key's vector.
void store_keys_only(LayerCache& layer) {
  for (HeadCache& head : layer.heads) {
    for (std::vector<Segment>* stored : {&head.segments, &head.copies, &head.unread, &head.host}) {
      for (Segment& segment : *stored) {
        segment.v_form = {};  // no columns: no bytes, whatever the codec
        segment.v_metadata = 0;
      }
    }
  }
}

/// Served KV heads of a rank that use a distinct one.
std::int64_t heads_on_rank(const DistinctLayer& layer, std::size_t distinct_head, std::int64_t rank,
                           std::int64_t num_ranks) {
  if (layer.kind.is_latent || num_ranks == 1) return layer.heads_of_distinct[distinct_head];
  const gpu::HeadRange heads = gpu::heads_of_rank(layer.kind.num_kv_heads, rank, num_ranks);
  const std::vector<std::int64_t> served = layer.served_heads(distinct_head);
  return std::ranges::count_if(served, [&](std::int64_t head) { return heads.contains(head); });
}

}  // namespace

bool is_compressible(const LayerKind& kind) {
  return kind.kind == AttentionKind::full_attention && kind.num_kv_heads > 0;
}

std::vector<std::int64_t> DistinctLayer::served_heads(std::size_t distinct_head) const {
  std::vector<std::int64_t> heads;
  for (auto head = static_cast<std::int64_t>(distinct_head); head < kind.num_kv_heads;
       head += static_cast<std::int64_t>(heads_of_distinct.size()))
    heads.push_back(head);
  return heads;
}

bool quantizes_every_entry(const Compression& setting) {
  const auto* quantize = setting.stages.size() == 1 ? std::get_if<Quantize>(&setting.stages.front()) : nullptr;
  const bool is_protected = setting.sinks > 0 || setting.window > 0 || !setting.anchors.empty();
  const bool waits =
      quantize != nullptr && (quantize->residual > 0 || (setting.block_size > 1 && setting.protects_filling_block));
  return quantize != nullptr && !waits && !is_protected;
}

bool is_compressed(const LayerKind& kind, const Compression& setting) {
  return is_compressible(kind) || (kind.window > 0 && kind.num_kv_heads > 0 && quantizes_every_entry(setting));
}

LayerCache windowed_cache(const DistinctLayer& layer, const Compression& setting, std::int64_t num_positions) {
  if (layer.kind.num_kv_heads == 0) return {};
  const std::int64_t kept = layer.kind.window > 0 ? std::min(layer.kind.window, num_positions) : num_positions;
  const Compression stored = is_compressed(layer.kind, setting) ? setting : Compression{};
  LayerCache cache = compress_layer(stored, kept, 1, layer.head_dim, {}, nullptr);
  if (layer.kind.is_latent) store_keys_only(cache);
  return cache;
}

namespace {

/// What decides a layer's cache.
struct LayerChoice {
  std::size_t kind = 0;      ///< index into the kinds, windowed ones behind the model's own
  std::size_t recorded = 0;  ///< index into the recorded layers; 0 where nothing is scored
  PartsPerMillion keep = 0;
  std::vector<PartsPerMillion> keep_by_head = {};  ///< empty: `keep` is that of every head
  bool is_merged = false;
  auto operator<=>(const LayerChoice&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// Served layers of one choice.
struct LayerCount {
  std::int64_t layers = 0;
  std::int64_t stored = 0;  ///< of them: layers with a cache of their own
};

/// First what decides each layer, then one cache for all layers of equal choices.
class CacheBuilder {
 public:
  CacheBuilder(const Model& model, const Compression& setting, const RecordedScores& recorded,
               std::int64_t num_positions, const LayerSharing& sharing)
      : model_(model),
        setting_(setting),
        recorded_(recorded),
        num_positions_(num_positions),
        sharing_(sharing),
        positional_(positional_stage(setting)),
        kinds_(kinds_of(model)),
        num_own_kinds_(kinds_.size()) {
    if (sharing.window > 0) add_windowed(kinds_, sharing.window);
    if (const Evict* evict = first_stage<Evict>(setting)) {
      has_scores_ = true;
      keep_ = evict->keep;
      served_free_ = free_blocks(setting, num_positions);
      recorded_free_ = free_blocks(setting, recorded.num_positions);
    }
  }

  [[nodiscard]] ServedCache build() const {
    ServedCache served;
    served.num_positions = num_positions_;
    served.is_arbitrary = has_scores_ && positional_ == nullptr && recorded_free_.empty() && !served_free_.empty();
    for (const auto& [choice, count] : choices()) served.layers.push_back(layer_of(choice, count));
    return served;
  }

 private:
  [[nodiscard]] std::size_t kind_of(std::int64_t layer) const {
    const std::size_t kind = model_.kind_of_layer.empty() ? 0 : model_.kind_of_layer[static_cast<std::size_t>(layer)];
    const bool has_window = sharing_.window > 0 && layer < sharing_.first_layer(model_.num_layers);
    return has_window ? kind + num_own_kinds_ : kind;
  }

  /// [layer] whose cache it reads. Windows and states are no other layer's to read.
  [[nodiscard]] std::vector<std::int64_t> owners() const {
    std::vector<std::int64_t> shape_of_layer;
    for (std::int64_t layer = 0; layer < model_.num_layers; ++layer) {
      const std::size_t kind = kind_of(layer);
      shape_of_layer.push_back(is_compressible(kinds_[kind]) ? static_cast<std::int64_t>(kind) : kNeverShares);
    }
    return sharing_.owners(shape_of_layer);
  }

  [[nodiscard]] std::map<LayerChoice, LayerCount> choices() const {
    const std::vector<std::int64_t> owner_of_layer = owners();
    std::map<LayerChoice, LayerCount> choices;
    for (std::int64_t layer = 0; layer < model_.num_layers; ++layer) {
      LayerChoice choice{.kind = kind_of(layer), .keep = keep_};
      std::int64_t owner = owner_of_layer[static_cast<std::size_t>(layer)];
      if (kinds_[choice.kind].kind == AttentionKind::shared_attention) {
        const auto native = static_cast<std::size_t>(native_owner(model_, layer));
        owner = owner_of_layer[native];
        choice.kind = model_.kind_of_layer[native];
      }
      choice.is_merged = sharing_.merges && is_shared(owner_of_layer, layer);
      const LayerKind& kind = kinds_[choice.kind];
      if (has_scores_ && is_compressible(kind)) {
        const LayerBudget& budget = recorded_.budget;
        choice.recorded = nearest_recorded(owner, model_.num_layers, recorded_);
        const bool is_lazy = choice.recorded < recorded_.is_lazy.size() && recorded_.is_lazy[choice.recorded];
        choice.keep = layer_keep(budget, keep_, owner, model_.num_layers, num_positions_, is_lazy);
        choice.keep_by_head =
            kv::keep_by_head(budget, keep_, owner, model_.num_layers, kind.num_kv_heads, num_positions_);
      }
      LayerCount& count = choices[choice];
      count.layers += 1;
      if (owner == layer) count.stored += 1;
    }
    return choices;
  }

  [[nodiscard]] DistinctLayer layer_of(const LayerChoice& choice, const LayerCount& count) const {
    const LayerKind& kind = kinds_[choice.kind];
    DistinctLayer layer;
    layer.kind = kind;
    layer.num_layers = count.layers;
    layer.num_stored_layers = count.stored;
    layer.head_dim = kind.num_kv_heads > 0 ? static_cast<std::int64_t>(kind.k_bytes) / 2 / kind.num_kv_heads : 0;
    if (choice.is_merged) layer.merged = merged_bytes(sharing_, num_positions_, layer.head_dim, kind.is_latent);
    if (!is_compressible(kind)) {
      if (kind.num_kv_heads > 0) layer.heads_of_distinct = {kind.num_kv_heads};
      layer.cache = windowed_cache(layer, setting_, num_positions_);
      return layer;
    }
    const std::int64_t num_distinct = !choice.keep_by_head.empty() ? kind.num_kv_heads
                                      : has_scores_                ? std::min(kind.num_kv_heads, recorded_.num_kv_heads)
                                                                   : 1;
    layer.heads_of_distinct.assign(static_cast<std::size_t>(num_distinct), 0);
    for (std::int64_t head = 0; head < kind.num_kv_heads; ++head)
      layer.heads_of_distinct[static_cast<std::size_t>(head % num_distinct)] += 1;
    const Compression of_layer = with_keep(setting_, choice.keep, choice.keep_by_head);
    layer.cache = compress_layer(of_layer, num_positions_, num_distinct, layer.head_dim,
                                 scores_of(choice, of_layer, num_distinct), nullptr);
    if (kind.is_latent) store_keys_only(layer.cache);
    return layer;
  }

  /// [distinct head][position]; empty where nothing is scored.
  [[nodiscard]] LayerScores scores_of(const LayerChoice& choice, const Compression& of_layer,
                                      std::int64_t num_distinct) const {
    if (positional_ != nullptr) {
      return importance(of_layer, *positional_stage(of_layer), {},
                        {.num_positions = num_positions_, .num_heads = num_distinct, .seed = choice.recorded + 1});
    }
    LayerScores scores;
    for (std::int64_t head = 0; has_scores_ && head < num_distinct; ++head) {
      const auto recorded_head = static_cast<std::size_t>(head % recorded_.num_kv_heads);
      scores.push_back(
          tiled(recorded_.scores[choice.recorded][recorded_head], recorded_free_, served_free_, num_positions_));
    }
    return scores;
  }

  const Model& model_;
  const Compression& setting_;
  const RecordedScores& recorded_;
  std::int64_t num_positions_;
  const LayerSharing& sharing_;
  const Evict* positional_;  ///< null: the trace scores
  std::vector<LayerKind> kinds_;
  std::size_t num_own_kinds_;  ///< the model's
  bool has_scores_ = false;    ///< some stage evicts
  PartsPerMillion keep_ = 1'000'000;
  std::vector<Block> served_free_, recorded_free_;
};

}  // namespace

ServedCache serve(const Model& model, const Compression& setting, const RecordedScores& recorded,
                  std::int64_t num_positions, const LayerSharing& sharing) {
  return CacheBuilder(model, setting, recorded, num_positions, sharing).build();
}

ServedCache part_of_rank(ServedCache cache, std::int64_t rank, std::int64_t num_ranks) {
  for (DistinctLayer& layer : cache.layers) {
    std::vector<std::int64_t> own;
    for (std::size_t head = 0; head < layer.heads_of_distinct.size(); ++head)
      own.push_back(heads_on_rank(layer, head, rank, num_ranks));
    layer.heads_of_distinct = std::move(own);
  }
  return cache;
}

std::vector<Bytes> rank_bytes(const ServedCache& cache, std::int64_t page_size, CacheLayout layout,
                              std::int64_t num_ranks) {
  std::vector<Bytes> sums(static_cast<std::size_t>(num_ranks), 0);
  for (const DistinctLayer& layer : cache.layers) {
    const std::vector<HeadPools> pools = layer_pools(layer.cache, page_size, layout);
    for (std::size_t head = 0; head < pools.size(); ++head) {
      const Bytes bytes = checked_product(layer_bytes({pools[head]}).total, static_cast<Bytes>(layer.num_stored_layers),
                                          "KV bytes of a head") +
                          layer.merged * static_cast<Bytes>(layer.num_layers);
      for (std::int64_t rank = 0; rank < num_ranks; ++rank)
        sums[static_cast<std::size_t>(rank)] += checked_product(
            bytes, static_cast<Bytes>(heads_on_rank(layer, head, rank, num_ranks)), "KV bytes of a rank");
    }
  }
  return sums;
}

LayerBytes sequence_bytes(const ServedCache& cache, std::int64_t page_size, CacheLayout layout) {
  LayerBytes sum;
  for (const DistinctLayer& layer : cache.layers) {
    const std::vector<HeadPools> pools = layer_pools(layer.cache, page_size, layout);
    for (std::size_t head = 0; head < pools.size(); ++head) {
      const LayerBytes of_head = layer_bytes({pools[head]});
      const auto copies = static_cast<Bytes>(layer.num_stored_layers * layer.heads_of_distinct[head]);
      const Bytes merged = layer.merged * static_cast<Bytes>(layer.num_layers * layer.heads_of_distinct[head]);
      sum.total += checked_product(of_head.total, copies, "KV bytes of a sequence") + merged;
      sum.metadata += of_head.metadata * copies + merged;
      sum.num_pages += of_head.num_pages * static_cast<std::int64_t>(copies);
    }
  }
  return sum;
}

}  // namespace kvtide::kv

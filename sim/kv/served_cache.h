#pragma once
// The served model's cache, decided from a smaller trace.
//
// The served geometry (Llama-3.1-8B at 32k) is larger than any trace at hand (a 135M model at 2k), so decisions carry
// over: served layer -> recorded layer nearest in relative depth; served KV head h -> trace KV head h mod its count;
// the trace's free blocks tile the served free blocks in order; protected blocks stay at the served ends; the keep rule
// is applied on the served count. A scorer that looks at positions alone (StreamingLLM) scores the served context itself.
//
// Example: a 2,021-position trace in blocks of 128 has 14 free blocks; 32,768 served positions have 254, the trace's
// scores are repeated 18.1 times; keep 0.5 leaves 128 of 256 blocks, first and last included.

#include <cstdint>
#include <vector>

#include "kv/cache_layout.h"
#include "kv/compression/layer_budget.h"
#include "kv/layer_sharing.h"
#include "model/model.h"

namespace kvtide::kv {

/// Position importance recorded on a trace.
struct RecordedScores {
  std::int64_t num_model_layers = 0;  ///< of the recorded model
  std::vector<std::int64_t> layers;   ///< recorded layer indices, ascending
  std::vector<LayerScores> scores;    ///< [recorded layer][kv_head][position]; empty rows when nothing is scored
  std::int64_t num_positions = 0;     ///< compressed positions of the trace
  std::int64_t num_kv_heads = 0;
  LayerBudget budget = {};         ///< how the keep ratio is spread over layers
  std::vector<bool> is_lazy = {};  ///< [recorded layer], for a lazy budget; a served layer is as its recorded one
};

/// A layer's decisions and how many served layers and heads share them.
struct DistinctLayer {
  LayerCache cache;                    ///< one HeadCache per distinct head
  std::int64_t num_layers = 0;         ///< served layers that read it
  std::int64_t num_stored_layers = 0;  ///< of them: layers that store it (layer_sharing.h)
  Bytes merged = 0;  ///< a layer that reads it stores so much of its own, one head (layer_sharing.h, merged_bytes)
  std::vector<std::int64_t> heads_of_distinct;  ///< [distinct head] served KV heads that use it
  LayerKind kind;                               ///< what these layers are; `cache` has no heads where nothing is stored
  std::int64_t head_dim = 0;                    ///< channels of a stored key

  /// KV heads that use a distinct one: those that leave it as the rest when divided by the number of distinct heads.
  [[nodiscard]] std::vector<std::int64_t> served_heads(std::size_t distinct_head) const;
};

struct ServedCache {
  std::int64_t num_positions = 0;
  std::vector<DistinctLayer> layers;
  bool is_arbitrary =
      false;  ///< the trace has no free block at this block size, so scores say nothing about the served blocks
};

/// Layers that store the whole context.
[[nodiscard]] bool is_compressible(const LayerKind& kind);

/// Whether entries are stored in another format as they come, and nothing else happens to them: so do engines in every layer, windows
/// included. One quantize stage that waits for no block and no residual, and no protected positions.
[[nodiscard]] bool quantizes_every_entry(const Compression& setting);

/// Whether the setting's stages apply to layers of this kind: is_compressible(), and windows under quantizes_every_entry().
[[nodiscard]] bool is_compressed(const LayerKind& kind, const Compression& setting);

/// Layers with a window keep its last positions, as they are but under quantizes_every_entry(): what a model never reads again needs no
/// compression. A latent vector is stored once, as K; linear layers store no positions.
/// @param num_positions  served context  @param sharing  a layer that shares has the choices of its owner
[[nodiscard]] ServedCache serve(const Model& model, const Compression& setting, const RecordedScores& recorded,
                                std::int64_t num_positions, const LayerSharing& sharing = {});

/// What a layer with a window holds of `num_positions`: the last of them.
[[nodiscard]] LayerCache windowed_cache(const DistinctLayer& layer, const Compression& setting,
                                        std::int64_t num_positions);

/// What one of `num_ranks` tensor-parallel ranks holds: its KV heads (gpu::heads_of_rank()), a latent vector whole.
/// @param num_ranks  they divide the heads of each layer or are a multiple of them
[[nodiscard]] ServedCache part_of_rank(ServedCache cache, std::int64_t rank, std::int64_t num_ranks);

/// Bytes of one sequence on each rank; the largest is full first. Example: of 8 heads 4..7 keep a tenth; rank 0 of 2 holds
/// half of what there is without compression.
/// @return [rank]
[[nodiscard]] std::vector<Bytes> rank_bytes(const ServedCache& cache, std::int64_t page_size, CacheLayout layout,
                                            std::int64_t num_ranks);

/// Bytes of one sequence over all layers and heads.
[[nodiscard]] LayerBytes sequence_bytes(const ServedCache& cache, std::int64_t page_size, CacheLayout layout);

}  // namespace kvtide::kv

#pragma once
// How long a step of a serving engine takes, for any mix of sequences: decoding ones of different lengths and chunks of
// prompts. The same mix is timed once; lengths are rounded up to pages first, which is what the kernels read.
//
// Example: decode lengths {100, 97, 2000} in pages of 16: two sequences of 112 entries and one of 2000.

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "gpu/iteration_graph.h"

namespace kvtide::gpu {

/// What the cache of one type of layer holds of a sequence, after compression.
struct CachedLayer {
  std::int64_t num_layers = 0;
  std::int64_t num_kv_heads = 1;
  std::int64_t head_dim = 128;
  Bytes entry_bytes = 512;       ///< that a step reads with an entry of one head: K and V, metadata included
  Bytes chunk_bytes = 0;         ///< contiguous bytes of a page; 0: page_size entries
  double keep_ratio = 1;         ///< of the positions outside always_kept: those that a step reads
  std::int64_t always_kept = 0;  ///< sinks and recent window
  std::int64_t window = 0;       ///< of the model; 0: none
  /// Elements of an entry that are converted before use (times the codec's cost), multiply-adds that rebuild it from a low rank.
  double dequantized_elements = 0, reconstruction_macs = 0;
  /// Of those that lengths count, for each page that a step chooses from; 0: nothing is chosen.
  double digest_entries = 0;
  std::int64_t digest_vectors = 0;        ///< PageSelection::digest_vectors
  double fp8_entries = 0, fp8_bytes = 0;  ///< share of AttentionTask::fp8_entries, and of the bytes that are theirs
};

/// Tokens of one prompt that are computed in this step.
struct PromptChunk {
  std::int64_t num_new = 0;     ///< >= 1
  std::int64_t num_cached = 0;  ///< earlier tokens of the same prompt
  // clang-tidy 14 takes the comparison with 0 that this stands for as a pointer.
  auto operator<=>(const PromptChunk&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// Sequences that decode one token, by length, and prompt chunks.
struct BatchShape {
  std::vector<std::int64_t> decode_lengths;  ///< entries attended if nothing was compressed, the new token included
  std::vector<PromptChunk> chunks;
};

class IterationModel {
 public:
  struct Options {
    DecoderShape shape;
    std::vector<CachedLayer> cache;  ///< together shape.num_layers
    std::int64_t page_size = 16;
  };
  /// @param gpu  outlives this object  @throws InputError
  IterationModel(Gpu& gpu, Options options);

  /// Duration of one step; 0 for an empty batch. Deterministic; safe to call from several threads.
  /// @throws InputError  negative lengths
  [[nodiscard]] Picoseconds step(const BatchShape& batch);
  /// The graph behind step(). @throws InputError  an empty batch
  [[nodiscard]] Iteration iteration(const BatchShape& batch);

  /// Of step(): the attention kernels of all layers, and those that choose what they read. 0 for an empty batch. Not kept.
  /// @throws InputError  negative lengths
  [[nodiscard]] Picoseconds attention(const BatchShape& batch);

  [[nodiscard]] std::int64_t num_lookups() const { return num_lookups_; }
  [[nodiscard]] std::int64_t num_known() const { return num_known_; }

 private:
  using Key = std::pair<std::vector<std::pair<std::int64_t, std::int64_t>>, std::vector<PromptChunk>>;
  [[nodiscard]] Key key_of(const BatchShape& batch) const;
  /// Attention of one layer of this type. The GPU's kernel decides whether decodes join the prompts (joins_prompts()).
  struct AttentionWork {
    DecodeAttentionWork decode;
    PrefillAttentionWork prefill;
    std::vector<StreamWork> selection;
  };
  [[nodiscard]] AttentionWork attention_of(const CachedLayer& layer, const Key& key) const;
  [[nodiscard]] std::vector<StreamWork> selection_of(const CachedLayer& layer, const Key& key) const;
  [[nodiscard]] PrefillAttentionWork prefill_of(const CachedLayer& layer, const std::vector<PromptChunk>& chunks) const;
  [[nodiscard]] Iteration iteration_of(const Key& key);

  Gpu& gpu_;
  Options options_;
  std::mutex mutex_;
  std::map<Key, Picoseconds> known_;
  std::int64_t num_lookups_ = 0;
  std::int64_t num_known_ = 0;
};

}  // namespace kvtide::gpu

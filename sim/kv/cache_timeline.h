#pragma once
// The served cache while tokens are appended: what a decode step reads, and which blocks become compressible when.
//
// A block is compressed when it has filled and left the protected window; with a residual R the keys are quantized together
// whenever the length is a multiple of R, and the values one by one as R newer ones stand behind them (KIVI), or with the
// keys (Hugging Face). With a decode target the whole cache is brought back to it every so many appends,
// before the next append; the prompt is brought to it, too. Both come once per period, so step time shows a comb. Example (case Q5):
// residual 128, prompt 100 -> flushes at decode steps 28, 156, 284; prompt 102 -> 26, 154, 282.

#include "gpu/kernel_work.h"
#include "kv/cache_schedule.h"
#include "kv/served_cache.h"

namespace kvtide::kv {

/// What one appended token caused, per sequence.
struct CacheEvent {
  std::int64_t num_positions = 0;     ///< after the append
  std::int64_t completed_blocks = 0;  ///< blocks that became compressible, counted once (every layer and head has them)
  std::int64_t flushed_positions = 0;       ///< keys moved from fp16 to integers by a residual flush
  std::int64_t flushed_values = 0;          ///< values that left the residual: one a step, or as many as keys
  std::int64_t recompressed_positions = 0;  ///< entries of a head that a compression to a target size chose from
};

/// Attention of layers that read alike.
struct LayerAttention {
  gpu::DecodeAttentionWork work;
  /// Kernels that choose what `work` reads, one after another before it (gpu/select_pages.h); empty: the choice stands.
  std::vector<gpu::StreamWork> selection;
  std::int64_t num_layers = 0;
  std::int64_t num_stored_layers = 0;  ///< of them: layers with a cache of their own to compress
  bool is_compressed = false;          ///< the setting's stages apply to them (served_cache.h)
  LayerKind kind;                      ///< of these layers; work has no tasks where they store no positions
};

class CacheTimeline {
 public:
  struct Geometry {
    Model model;
    Compression setting;
    std::int64_t page_size = 16;
    CacheLayout layout = CacheLayout::per_head;
    std::int64_t batch = 1;  ///< sequences of equal length
    CacheSchedule schedule = {};
    LayerSharing sharing = {};
    std::int64_t score_window = 64;  ///< newest queries that scorers of attention watch; those before cost nothing
  };
  CacheTimeline(Geometry geometry, RecordedScores recorded, std::int64_t prompt_positions);

  CacheEvent append();
  [[nodiscard]] std::int64_t num_positions() const { return num_positions_; }
  /// As last compressed; decisions are those of the last completed block.
  [[nodiscard]] const ServedCache& cache() const { return cache_; }
  /// The state just now: the same and what was appended since.
  [[nodiscard]] ServedCache held() const;

  /// Attention of one decode step over the current state, by distinct layer; counts include the batch.
  [[nodiscard]] std::vector<LayerAttention> attention() const { return attention(geometry_.batch); }
  /// The same of another batch of such sequences.
  [[nodiscard]] std::vector<LayerAttention> attention(std::int64_t batch) const;
  /// Blocks of a sequence that are compressed because of `event`; with a residual those of its keys.
  [[nodiscard]] std::int64_t compressed_blocks(const CacheEvent& event) const;
  /// Compression of one layer caused by `event`, over all sequences and KV heads; nothing to do: num_blocks 0.
  /// Example: KIVI, residual 128, one head of 128 channels: 127 steps quantize one value of 128 elements, the 128th besides
  /// 128 keys of 16,384.
  [[nodiscard]] gpu::CompressBlocksWork compression_work(const CacheEvent& event) const {
    return compression_work(event, geometry_.batch);
  }
  [[nodiscard]] gpu::CompressBlocksWork compression_work(const CacheEvent& event, std::int64_t batch) const;

 private:
  void rebuild();

  Geometry geometry_;
  RecordedScores recorded_;
  std::int64_t num_positions_;
  std::int64_t num_appended_ = 0;  ///< fp16 entries since cache_ was built
  std::int64_t num_free_blocks_ = 0;
  ServedCache cache_;
};

}  // namespace kvtide::kv

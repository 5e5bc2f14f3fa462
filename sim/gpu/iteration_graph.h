#pragma once
// One step of a model as a graph of kernels on streams: every kernel of every layer, from the first norm to the logits.
//
//   a layer   elementwise - qkv - [select] - attention - [compress] - o - [all_reduce] - MLP - [all_reduce]
//   dense     gate_up - down;  experts  router - expert_gate_up - expert_down, shared_gate_up - shared_down
//   latent    query_down - qkv - absorb_query - attention - expand_value - o
//   ranks     the embedding's parts are summed before the first layer, the logits' parts gathered after the head
//   experts whole on ranks (expert_parallel)
//             all_reduce - router on own tokens - dispatch - expert_gate_up - expert_down - combine - all_gather
//   stages    the layers of a pipeline stage run on its own GPUs; `send` hands the activations on
//
// One rank of every stage is shown; the others of a tensor-parallel group do the same at the same time. One batch is in
// flight, so pipeline stages save memory, not time. Host work between steps (scheduling, sampling) is not part of it.
//
// Example, Llama-3.1-8B on H100, batch 1, short context: 15.0 GB of layer and head weights / 3.08 TB/s = 4.9 ms, and 32
// x 6 + 1 kernels with some microseconds of launch each: about 5.8 ms. With 2 ranks 64 all-reduces of 8 KiB more.

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/decoder_shape.h"
#include "gpu/gpu.h"
#include "gpu/kernel_graph.h"

namespace kvtide::gpu {

/// What one step has to do, for the whole model: ranks take their share. A list of one entry stands for all layers, else
/// it holds one entry a layer.
struct IterationWork {
  std::int64_t batch = 1;                         ///< new tokens over all sequences
  std::int64_t num_logits = 0;                    ///< tokens whose logits are wanted; 0: batch
  std::vector<DecodeAttentionWork> attention{};   ///< [layer] or [1]; no tasks: nothing decodes
  std::vector<PrefillAttentionWork> prefill{};    ///< [layer], [1], or empty: no prompts in this step
  std::vector<CompressBlocksWork> compression{};  ///< [layer], [1], or empty: no block became eligible
  /// [layer], [1], or empty: kernels that choose what decoding sequences read (select_pages.h), one after another.
  std::vector<std::vector<StreamWork>> selection{};
  /// Compression and shared experts run on streams of their own beside what does not need them; the step's end waits.
  bool has_side_streams = false;
};

struct KernelClassTime {
  std::string kernel_class;  ///< "elementwise", "qkv_gemm", "attention", "compress", "all_reduce", ...
  std::int64_t num_kernels = 0;
  Picoseconds duration{0};           ///< sum over the kernels
  Picoseconds critical_duration{0};  ///< of those without slack
  Bytes hbm_bytes = 0;
};

struct Iteration {
  Picoseconds duration{0};  ///< critical path, compression included
  Picoseconds compress_duration{0};
  Picoseconds collective_duration{0};
  Bytes hbm_bytes = 0;                    ///< of one rank of every stage
  double attention_row_hit_rate = 0;      ///< of the first layer with attention
  std::vector<KernelClassTime> by_class;  ///< in order of first use
  KernelSchedule schedule;
};

/// A rank's part of the attention of a whole layer: KV heads are divided (heads_of_rank()); where ranks outnumber them each is
/// repeated and its query heads are divided. A latent vector is repeated on every rank.
/// Example: 8 sequences x 8 KV heads = 64 tasks of 4 query heads; 2 ranks: 32 tasks; 16 ranks: 8 tasks of 2 query heads.
[[nodiscard]] DecodeAttentionWork part_of_rank(const DecodeAttentionWork& work, std::int64_t num_kv_heads,
                                               bool is_latent, std::int64_t num_ranks, std::int64_t rank);

/// The part of the rank that reads most, for which the others wait at the all-reduce behind.
/// Example: heads 0..3 keep all, 4..7 a tenth; rank 0 of 2 reads as much as without compression.
[[nodiscard]] DecodeAttentionWork share_of_rank(const DecodeAttentionWork& work, std::int64_t num_kv_heads,
                                                bool is_latent, std::int64_t num_ranks);

/// A rank's part of work over all KV heads alike: what is done for query heads is divided by all ranks, the rest as KV heads are.
/// Example: of 100 flops 80 are for query heads; 8 ranks over 4 KV heads: 80 / 8 + 20 / 4 = 15, over a latent vector 80 / 8 + 20 = 30.
[[nodiscard]] StreamWork share_of_rank(const StreamWork& work, std::int64_t num_kv_heads, bool is_latent,
                                       std::int64_t num_ranks);

/// The same of prompt chunks: query and KV heads are divided, a KV head that ranks outnumber is repeated.
[[nodiscard]] PrefillAttentionWork share_of_rank(const PrefillAttentionWork& work, std::int64_t num_ranks);

/// Equal kernels are timed once, however many layers repeat them.
/// @throws InputError  a shape or list that does not fit, or work that the kernels refuse
[[nodiscard]] Iteration time_iteration(Gpu& gpu, const DecoderShape& shape, const IterationWork& work,
                                       L2State l2 = L2State::cold);

}  // namespace kvtide::gpu

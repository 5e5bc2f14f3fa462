#pragma once
// Kernels described by their work: bytes by access pattern, arithmetic, thread blocks. Never by a fitted end time.

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"

namespace kvtide::gpu {

/// One pool of pages that a task streams: entries of one stored form, K or V.
struct PageStream {
  Bytes bytes = 0;        ///< pages are read whole
  Bytes chunk_bytes = 0;  ///< contiguous bytes of one page
  bool operator==(const PageStream&) const = default;
};

/// Attention of one (sequence, KV head): the unit the kernel distributes over SMs, possibly split along the entries.
struct AttentionTask {
  std::vector<PageStream> streams;
  std::int64_t num_entries = 0;     ///< keys attended
  double dequantized_elements = 0;  ///< elements converted from an integer or low-rank form before use
  double reconstruction_macs = 0;   ///< low rank: multiply-adds that rebuild K and V rows
  std::int64_t hidden_entries = 0;  ///< older than a sliding window: not read, but the window then starts inside a tile
  std::int64_t count = 1;           ///< how many equal tasks (batch, equal heads)
  bool operator==(const AttentionTask&) const = default;
};

/// One decode step's attention kernel of one layer.
struct DecodeAttentionWork {
  std::vector<AttentionTask> tasks;
  std::int64_t query_heads_per_task = 1;  ///< GQA group
  std::int64_t head_dim = 128;
  std::int64_t math_bits = 16;      ///< operands of the tensor cores: 16, or 8 where fp8 entries are used as they are
  bool interleaves_groups = false;  ///< several sequences and several KV heads: a group's queries do not lie together
  bool has_window = false;          ///< the model's layer has a sliding window, whether or not the context exceeds it
  std::string kernel;  ///< a framework ("vllm") or one AttentionKernel of the profile; empty: its first framework
  bool operator==(const DecodeAttentionWork&) const = default;
};

/// A dense linear layer: activations [m, k] times weights [k, n].
struct GemmWork {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t weight_bytes_per_element = 2;
  bool operator==(const GemmWork&) const = default;
};

/// Compression of blocks that just became eligible: one kernel a layer over all sequences and heads.
struct CompressBlocksWork {
  std::int64_t num_blocks = 0;  ///< blocks over all sequences and KV heads
  Bytes read_bytes = 0;         ///< in total
  Bytes write_bytes = 0;
  Bytes chunk_bytes = 0;  ///< contiguous run of the blocks' pages
  double flops = 0;       ///< scoring, averaging, SVD, scaling; on CUDA cores
  bool operator==(const CompressBlocksWork&) const = default;
};

/// What a kernel did on the machine.
struct KernelTime {
  Picoseconds duration{0};
  Bytes hbm_bytes = 0;           ///< moved between L2 and HBM
  double row_hit_rate = 0;       ///< of the largest stream; NaN where the memory tier does not know
  double memory_busy_share = 0;  ///< of the duration: memory-bound share
  std::string limited_by;        ///< "launch", "memory", "in-flight", "compute"
};

}  // namespace kvtide::gpu

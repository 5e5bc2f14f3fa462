#pragma once
// Kernels described by their work: bytes by access pattern, arithmetic, thread blocks. Never by a fitted end time.

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "gpu/l2_cache.h"
#include "gpu/operand_format.h"

namespace kvtide::gpu {

/// One pool of pages that a task streams: entries of one stored form, K or V.
struct PageStream {
  Bytes bytes = 0;        ///< pages are read whole
  Bytes chunk_bytes = 0;  ///< contiguous bytes of one page
  bool is_fp8 = false;    ///< of the entries that AttentionTask::fp8_entries counts
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
  /// Of the layer, that these tasks are of, in equal numbers; empty: all of them. Ranks divide KV heads.
  std::vector<std::int64_t> kv_heads = {};
  /// Of num_entries: E4M3 codes under one scale, all others being fp16. Where the GPU has a kernel for them, 8-bit tensor
  /// cores take the codes as they are, and the others have a call of their own; elsewhere dequantized_elements are converted.
  std::int64_t fp8_entries = 0;
  bool operator==(const AttentionTask&) const = default;
};

/// One decode step's attention kernel of one layer.
struct DecodeAttentionWork {
  std::vector<AttentionTask> tasks;
  std::int64_t query_heads_per_task = 1;  ///< GQA group
  std::int64_t num_sequences = 1;         ///< of the batch
  std::int64_t head_dim = 128;
  std::int64_t math_bits = 16;      ///< operands of the tensor cores: 16, or 8 where fp8 entries are used as they are
  bool interleaves_groups = false;  ///< several sequences and several KV heads: a group's queries do not lie together
  bool has_window = false;          ///< the model's layer has a sliding window, whether or not the context exceeds it
  /// All query heads share one row as key and value (mla_decode.h): head_dim is mean_product_width().
  bool is_latent = false;
  std::string kernel;  ///< a framework ("vllm") or one AttentionKernel of the profile; empty: its first framework
  bool operator==(const DecodeAttentionWork&) const = default;
};

/// Of latent attention's q.K over latent and rotary part and its p.V over the latent, the head_dim of such work. Example,
/// DeepSeek-V3: (576 + 512) / 2 = 544.
constexpr std::int64_t mean_product_width(std::int64_t latent_width, std::int64_t rope_width) {
  return (2 * latent_width + rope_width) / 2;
}

/// Equal sequences of one prefill call.
struct PrefillSequence {
  std::int64_t num_new = 0;     ///< tokens whose queries run, >= 0
  std::int64_t num_cached = 0;  ///< earlier tokens that are in the cache, >= 0
  std::int64_t count = 1;
  bool operator==(const PrefillSequence&) const = default;
};

/// Causal attention of new tokens, one layer, incl. writing their K and V to the cache.
struct PrefillAttentionWork {
  std::vector<PrefillSequence> sequences;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 128;
  std::int64_t value_dim = 0;  ///< where V is narrower than K (MLA: 128 against 192); 0: as head_dim
  std::int64_t window = 0;     ///< keys a query sees, itself included; 0: all
  std::int64_t query_bits = 16;
  std::int64_t kv_bits = 16;  ///< of a stored element, for which the kernel is made
  Bytes entry_bytes = 0;      ///< of an entry of one KV head, K and V; 0: that of kv_bits
  std::int64_t page_tokens = 16;
  std::string kernel = {};  ///< a framework ("vllm") or one PrefillKernel of the profile; empty: its first framework
  bool operator==(const PrefillAttentionWork&) const = default;
};

/// A linear layer: activations [m, k] times weights [k, n]; grouped where experts have weights of their own.
struct GemmWork {
  std::int64_t m = 0;  ///< rows of each group
  std::int64_t n = 0;
  std::int64_t k = 0;
  OperandFormat format = OperandFormat::bfloat16;
  std::int64_t num_groups = 1;  ///< equal GEMMs in one launch, each with its own weights
  std::string kernel = {};      ///< a framework ("vllm") or one GemmKernel of the profile; empty: its first framework
  bool from_host = false;       ///< launched one by one, so that a slow host is waited for; false: in a CUDA graph
  bool operator==(const GemmWork&) const = default;
};

/// A kernel on CUDA cores: it reads, computes and writes. Compression of the blocks that just became eligible is one such
/// kernel a layer over all sequences and heads; the files *_work functions stand in describe others.
struct StreamWork {
  std::int64_t num_blocks = 0;  ///< thread blocks, equal shares of what follows; 0: no kernel
  Bytes read_bytes = 0;         ///< in total
  Bytes write_bytes = 0;
  Bytes chunk_bytes = 0;          ///< contiguous run of what is read, a page or a row
  double flops = 0;               ///< on CUDA cores, a multiply-add counted as 2
  double query_flops = 0;         ///< of them: for each query head, which ranks divide even where they repeat KV heads
  double tensor_flops = 0;        ///< short products with query heads inside the kernel, 16 bit
  std::int64_t num_launches = 1;  ///< kernels one after another that share the amounts above
  L2State input = L2State::cold;  ///< warm: the kernel before wrote what is read
  bool operator==(const StreamWork&) const = default;
};
using CompressBlocksWork = StreamWork;

enum class QuantizeStep : std::uint8_t {
  cast,        ///< 16 bit to 8 bit with a known scale
  find_scale,  ///< the largest magnitude, of a tensor or of each row
};

/// Activations quantized before a product.
struct QuantizeWork {
  std::int64_t num_rows = 0;
  std::int64_t row_size = 0;
  QuantizeStep step = QuantizeStep::cast;
  std::string kernel = {};  ///< a framework ("vllm") or one QuantizeKernel of the profile; empty: its first framework
  bool operator==(const QuantizeWork&) const = default;
};

/// KV pages to host memory or back.
struct HostTransferWork {
  Bytes bytes = 0;
  std::int64_t num_pieces = 1;  ///< contiguous runs
  bool by_kernel = false;       ///< a kernel reads pinned host memory; else the copy engine moves each piece
  bool operator==(const HostTransferWork&) const = default;
};

/// What a kernel did on the machine.
struct KernelTime {
  Picoseconds duration{0};
  Bytes hbm_bytes = 0;           ///< moved between L2 and HBM
  double row_hit_rate = 0;       ///< of the largest stream; NaN where the memory tier does not know
  double memory_busy_share = 0;  ///< of the duration: memory-bound share
  std::string limited_by;        ///< "launch", "memory", "in-flight", "compute", "link"
};

}  // namespace kvtide::gpu

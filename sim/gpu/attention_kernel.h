#pragma once
// A decode-attention kernel generation as data: which work a framework gives it, how it cuts the work, and the few
// costs that no datasheet tells. The files are hw_profiles/attention_kernels/<name>.yaml; GPU profiles list the names.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "config/yaml_value.h"
#include "gpu/kernel_work.h"
#include "gpu/split_rule.h"

namespace kvtide::gpu {

/// Shapes for which a kernel runs.
enum class Applies : std::uint8_t {
  always,
  grouped_unwindowed,  ///< more than one query head a KV head, and no sliding window
};

/// How the entries are stored, against what the arithmetic takes.
enum class EntryForm : std::uint8_t {
  any,
  operands,   ///< used as they are
  converted,  ///< to the operands' form first (fp8 under 16-bit arithmetic, integers)
};

/// Which shapes a framework hands to a kernel. A shape is served when every condition holds.
struct KernelScope {
  Applies when = Applies::always;
  std::int64_t math_bits = 0;  ///< 16 or 8; 0: both
  EntryForm entries = EntryForm::any;
  std::int64_t min_group = 1;  ///< query heads of a KV head
  std::int64_t max_group = 1 << 20;
  std::int64_t min_head_dim = 1;
  std::int64_t max_head_dim = 1 << 20;
  /// Blocks that the tasks make at 128 entries each, over the SMs: TensorRT-LLM hands emptier machines to another kernel
  /// (decoderXQARunner.cpp, mayHavePerfGain, asks for a quarter). Example: 8 tasks of 1,000 entries are 8 x 7 blocks, 0.42
  /// of 132 SMs.
  double min_blocks_per_sm = 0;
  /// Entries of the longest task, those before its window too: FlashAttention-3 compiles a kernel of its own for calls that
  /// it never splits, those of at most four tiles (hopper/heuristics.h).
  std::int64_t max_entries = std::int64_t{1} << 40;

  [[nodiscard]] bool serves(const DecodeAttentionWork& work, std::int64_t num_sms) const;
};

/// Shape of one tile. A wide tile wastes tensor throughput on decode's few query rows: FlashAttention-3 with fp8 pads
/// them to 192 at head_dim 64 and to 128 at 128 (hopper/tile_size.h), and reads 1.26 times fewer elements a second at 64.
struct KernelTile {
  std::int64_t head_dim = 0;  ///< the largest it serves
  std::int64_t entries = 0;
  std::int64_t query_rows = 0;  ///< 0: the kernel's tile_query_rows
};

/// Times in seconds.
struct AttentionKernel {
  std::string name;
  std::string framework;  ///< "vllm", "trtllm", "sglang"
  KernelScope scope;
  bool shares_kv = true;  ///< one thread block serves all query heads of a KV head; else one block each
  /// Decoding sequences beside prompt chunks go through the chunks' variable-length call; else through this kernel, in a call
  /// of their own (FlashInfer, TensorRT-LLM).
  bool joins_prompts = false;
  SplitRule splits = SplitRule::within_slots;  ///< how a task is cut along its entries
  std::int64_t max_splits = 128;               ///< of one task
  std::int64_t blocks_per_sm = 1;              ///< thread blocks resident at the same time
  double clock = 0;          ///< Hz, of the GPU that the times were calibrated on; other GPUs run as many cycles
  double fixed_time = 0;     ///< cache append, split schedule and ramp, once a call (launch not included)
  double sequence_time = 0;  ///< the same, for each sequence of the batch
  double task_time = 0;      ///< prologue and epilogue of one thread block
  double task_time_per_channel = 0;  ///< the same, per channel of head_dim
  double output_time = 0;            ///< query in and output out, per query row and channel
  double empty_block_time = 0;       ///< a block that finds nothing to do
  double regroup_time = 0;           ///< copies that bring the query heads of a group together where they do not lie so
  double combine_time = 0;           ///< joining the splits of a task; only when there are splits
  double combine_output_time = 0;    ///< the same, per split, query row and channel
  Bytes bytes_in_flight = 0;         ///< per SM, of KV requested and not yet returned
  std::int64_t tile_query_rows = 64;  ///< query heads of a group share one tile (rows are padded to this)
  double tensor_efficiency = 0;       ///< of the tensor throughput inside a tile, 0..1
  double transpose_rate = 0;          ///< V elements/s per SM that an 8-bit kernel brings into the tensor cores' layout
  double memory_share = 1;            ///< of the read bandwidth, that the order of its addresses reaches, (0, 1]
  std::vector<KernelTile> tiles;      ///< head_dim ascending

  /// Entries in one tile. The tile shrinks as head_dim grows, because K and V tiles share the SM's scratch memory.
  [[nodiscard]] std::int64_t tile_entries(std::int64_t head_dim) const;
  /// Query heads of one tile: its own figure, or tile_query_rows.
  [[nodiscard]] std::int64_t tile_rows(std::int64_t head_dim) const;
  /// The kernel on a GPU of another clock: the same cycles. Example: 7 us at 1,410 MHz are 4.06 us at 2,430 MHz; the fixed
  /// times of FlashAttention-2, measured on both, are 6.9 and 3.5 us.
  [[nodiscard]] AttentionKernel at_clock(double gpu_clock) const;
};

/// A value of a hardware file with its origin, in the order of the file; for `show gpus NAME`.
struct ProfileFact {
  std::string key;    ///< "memory.bandwidth"
  std::string value;  ///< as written, "3.35 TB/s"
  std::string source;
};

/// Reads a kernel, written in place or in a file of its own. Errors go to the document of `map`.
[[nodiscard]] AttentionKernel read_attention_kernel(const config::Value& map, std::vector<ProfileFact>& facts);

/// @throws InputError  unknown name, with the known ones; wrong or missing keys
[[nodiscard]] AttentionKernel load_attention_kernel(const std::string& name_or_path, std::vector<ProfileFact>& facts);

}  // namespace kvtide::gpu

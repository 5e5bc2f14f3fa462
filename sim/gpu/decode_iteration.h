#pragma once
// One decode step of a dense decoder: every kernel of every layer on one stream, from the first norm to the logits.
// Per layer: elementwise (norms, RoPE, residual, gate) - qkv GEMM - attention - [compress] - o GEMM - gate/up GEMM -
// down GEMM. Host work between steps (scheduling, sampling) is not part of it.
//
// Example, Llama-3.1-8B on H100, batch 1, short context: 15.0 GB of layer and head weights / 3.08 TB/s = 4.9 ms, and 32
// x 6 + 1 kernels with some microseconds of launch each: about 5.8 ms.

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/gpu.h"
#include "gpu/kernel_graph.h"

namespace kvtide::gpu {

/// The matrices of a dense decoder with gated MLP. All counts >= 1.
struct DecoderShape {
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_query_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t vocab_size = 0;
  std::int64_t weight_bytes_per_element = 2;
  bool operator==(const DecoderShape&) const = default;
};

/// What one step has to do. A list of one entry stands for all layers, else it holds one entry a layer.
struct DecodeStepWork {
  std::int64_t batch = 1;                       ///< sequences, one new token each
  std::vector<DecodeAttentionWork> attention;   ///< [layer] or [1]
  std::vector<CompressBlocksWork> compression;  ///< [layer], [1], or empty: no block became eligible
};

struct KernelClassTime {
  std::string kernel_class;  ///< "elementwise", "qkv_gemm", "attention", "compress", "o_gemm", "gate_up_gemm",
                             ///< "down_gemm", "lm_head"
  std::int64_t num_kernels = 0;
  Picoseconds duration{0};  ///< sum over the kernels
  Bytes hbm_bytes = 0;
};

struct DecodeIteration {
  Picoseconds duration{0};  ///< critical path, compression included
  Picoseconds compress_duration{0};
  Bytes hbm_bytes = 0;
  double attention_row_hit_rate = 0;      ///< of the first layer's attention
  std::vector<KernelClassTime> by_class;  ///< in order of first use
  KernelSchedule schedule;
};

/// Equal kernels are timed once, however many layers repeat them.
/// @throws InputError  a shape or list that does not fit, or work that the kernels refuse
[[nodiscard]] DecodeIteration decode_iteration(Gpu& gpu, const DecoderShape& shape, const DecodeStepWork& work,
                                               L2State l2 = L2State::cold);

}  // namespace kvtide::gpu

#pragma once
// A whole attention module over compressed or sparsely read KV in one decode step, projections included: about twenty
// kernels, each of which costs its launch.
//   dsa  DeepSeek sparse attention (DeepSeek-V3.2, GLM-5): an indexer scores every token with small 8-bit keys, the best
//        2,048 are attended with multi-head latent attention
//   csa  DeepSeek-V4: one entry for 4 tokens, the indexer picks 512 or 1,024 of them; the last 128 tokens stay exact
//   hca  DeepSeek-V4: one entry for 128 tokens, all attended; the last 128 tokens stay exact
//
//   time = fixed + sequences + weights / memory + projections / tensor + index keys / memory + selection + attention / tensor
//
// Example, DeepSeek-V3.2, 128 heads, batch 64 at 65,536 tokens on an H100: the indexer reads 64 x 65,536 x 132 B = 554 MB
// (176 us at 3.15 TB/s and its efficiency of 1), attention 64 x 2,048 rows instead of 65,536.

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/access_pattern.h"
#include "gpu/attention_kernel.h"
#include "gpu/gpu_profile.h"
#include "gpu/kernel_work.h"

namespace kvtide::gpu {

/// What the costs of a framework's module are, apart from its work; files in hw_profiles/attention_modules/.
struct AttentionModule {
  std::string name;
  double fixed_time = 0;             ///< s, launches and small kernels of one call
  double sequence_time = 0;          ///< s, each sequence: norms, rotary, quantization, append, gather of pages
  double projection_efficiency = 1;  ///< of the tensor throughput
  double index_efficiency = 1;       ///< of the memory's read rate, index keys
  double select_time = 0;            ///< s, top-k for each entry, sequences side by side on the SMs
  double attention_efficiency = 1;   ///< of the 16-bit tensor throughput
};

/// @param memory_standard  GDDR parts (compute capability 12.0) run other code where a module of theirs is shipped, else
///                         that of HBM parts
/// @throws InputError  no such module, wrong file
[[nodiscard]] AttentionModule load_attention_module(const std::string& framework, const std::string& kind,
                                                    const std::string& memory_standard);

/// One decode step of one layer's module on one GPU.
struct CompressedAttentionWork {
  std::int64_t batch = 1;
  std::int64_t num_heads = 1;           ///< query heads on this GPU
  double projection_elements = 0;       ///< weights, the indexer's included
  double weight_bytes_per_element = 2;  ///< 2, 1 or 0.5625 (four bits and a scale for 16)
  double absorbed_elements = 0;         ///< up-projections kept in 16 bits and applied head by head
  std::int64_t index_entries = 0;       ///< of one sequence, scored by the indexer
  double index_entry_bytes = 132;       ///< 128 8-bit elements and a 4-byte scale
  std::int64_t attended_entries = 0;    ///< of one sequence
  double attended_width = 544;          ///< mean width of the two products
};

/// Model dimensions that the work follows from.
struct SparseModel {
  bool has_latent_cache = true;  ///< dsa: MLA; else DeepSeek-V4's one head of `head_dim`
  std::int64_t hidden = 7168;
  std::int64_t query_rank = 1536;
  std::int64_t nope_width = 128;   ///< dsa
  std::int64_t value_width = 128;  ///< dsa
  std::int64_t num_index_heads = 64;
  std::int64_t num_selected = 2048;
  std::int64_t num_heads = 128;     ///< of the whole model, for the output groups of DeepSeek-V4
  std::int64_t output_groups = 16;  ///< DeepSeek-V4
};

/// Shapes of the models in the measured tables: DeepSeek-V3.2, GLM-5 (5.2), DeepSeek-V4-Flash, DeepSeek-V4-Pro, by the
/// leading part of the name. @throws InputError listing them
[[nodiscard]] SparseModel sparse_model(const std::string& name);

/// @param compress_ratio  tokens of an entry: 1 (dsa), 4 (csa), 128 (hca)
/// @param has_indexer     false: the selection of an earlier layer is used again, or everything is attended
[[nodiscard]] CompressedAttentionWork compressed_attention_work(const SparseModel& model, std::int64_t compress_ratio,
                                                                bool has_indexer, std::int64_t batch,
                                                                std::int64_t context, std::int64_t num_heads,
                                                                double weight_bytes_per_element);

/// @throws InputError  negative or non-finite work
[[nodiscard]] KernelTime time_compressed_attention(const GpuProfile& profile, MemoryModel& memory,
                                                   const AttentionModule& module, const CompressedAttentionWork& work);

}  // namespace kvtide::gpu

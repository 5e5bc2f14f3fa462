#pragma once
// One decode step's attention of one layer on the machine.
//
// Each (sequence, KV head) is a task: its entries are streamed tile by tile through one thread block, or through
// several when few tasks would leave SMs idle (split_rule.h), or through one for each query head where the kernel does
// not share KV. The recipe of one thread block:
//   overhead + max(KV bytes / own stream rate, tensor work + V transpose + dequantize + low-rank rebuild)
//   overhead = task_time + task_time_per_channel x head_dim + output_time x rows x head_dim
// Loads run ahead of the arithmetic; the arithmetic's parts follow one another in the same warps. Blocks run in waves
// over the SMs; device memory and L2 bound the whole, except for the overhead of the first wave, when nothing streams yet.
// Then the splits are joined.
//   duration = max(host, launch + fixed + sequences + regroup + overhead + body + combine)
//   body = the waves without the first overhead on a memory that needs max(HBM time, L2 time): wave by wave, and near
//          saturation both slow each other down by (1 + asked^6)^(1/6) (block_dispatch.h, time_on_shared_memory)
//
// Where some entries are fp8 and some fp16 (a protected window) the codes go to the 8-bit kernel, the others have a second call,
// and a third kernel joins the two; or one call converts the codes, where that is faster.
//
// Example: 64 tasks of 4,096 fp16 entries, head_dim 128, are 64 x 2 x 1 MiB = 134 MB: 42.6 us at 3.15 TB/s. 132 SMs, two
// blocks a task, each 16 tiles of 128 entries: 1 MiB at 32 KiB / 370 ns is 11.8 us a wave, and memory binds.

#include "gpu/access_pattern.h"
#include "gpu/gpu_profile.h"
#include "gpu/kernel_work.h"
#include "gpu/l2_cache.h"

namespace kvtide::gpu {

/// @throws InputError  negative or non-finite work, unknown kernel, 8-bit math on a GPU without it
[[nodiscard]] KernelTime time_decode_attention(const GpuProfile& profile, MemoryModel& memory,
                                               const DecodeAttentionWork& asked, L2State l2);

/// Whether this work, beside prompt chunks, goes through their call (AttentionKernel::joins_prompts), each sequence as a chunk
/// of one token: its heads do not share tiles and its entries are not split. Latent rows and entries that are converted or
/// rebuilt never do. @throws InputError  unknown kernel
[[nodiscard]] bool joins_prompts(const GpuProfile& profile, const DecodeAttentionWork& asked);

}  // namespace kvtide::gpu

#pragma once
// One decode step's attention of one layer on the machine.
//
// Each (sequence, KV head) is a task: its entries are streamed tile by tile through one thread block, or through
// several when there are fewer tasks than SMs (split-KV, Dao et al., Flash-Decoding), or through one for each query head
// where the kernel does not share KV. The recipe of one thread block:
//   task_time + output + max(KV bytes / own stream rate, tensor work + V transpose + dequantize + low-rank rebuild)
// Loads run ahead of the arithmetic; the arithmetic's parts follow one another in the same warps. Blocks run in waves
// over the SMs; device memory and L2 bound the whole. Then a second kernel joins the splits.
//   duration = launch + fixed + regroup + (waves^4 + max(HBM time, L2 time)^4)^(1/4) + combine
//
// Example, H100, 132 SMs: batch 8 x 8 KV heads = 64 tasks of 4096 fp16 entries, head_dim 128, tiles of 128: 32 tiles a
// task. 64 < 0.8 x 132, so split: 2 blocks a task fill 128 of 132 SMs (0.97), no larger number is more than 1/0.85
// better: 2.

#include "gpu/access_pattern.h"
#include "gpu/gpu_profile.h"
#include "gpu/kernel_work.h"
#include "gpu/l2_cache.h"

namespace kvtide::gpu {

/// How many thread blocks share one task.
///
/// The smallest number that fills the last wave to at least 85 % of the best filling; 1 when the tasks alone occupy
/// 80 % of the SMs, or when a task has 4 tiles or fewer (FlashAttention hopper/heuristics.h, num_splits_heuristic; its
/// exception for heads larger than L2 needs many query tiles and never holds in decode).
/// @param num_tasks  >= 1
/// @param num_tiles  of the longest task, >= 1
[[nodiscard]] std::int64_t split_count(std::int64_t num_tasks, std::int64_t num_tiles, std::int64_t num_sms,
                                       std::int64_t max_splits);

/// @throws InputError  negative or non-finite work, unknown kernel, 8-bit math on a GPU without it
[[nodiscard]] KernelTime time_decode_attention(const GpuProfile& profile, MemoryModel& memory,
                                               const DecodeAttentionWork& work, L2State l2);

}  // namespace kvtide::gpu

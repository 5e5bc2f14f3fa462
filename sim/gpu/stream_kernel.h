#pragma once
// A kernel on CUDA cores that reads, computes and writes: compression of blocks, casts, pools, scorers, gathers, norms.
//   duration = launches x (launch + one load latency) + max(memory time, own stream time, arithmetic), blocks in waves
//
// Example, H100: 64 blocks (8 sequences x 8 KV heads) of 128 positions, head_dim 128, fp16 K and V: 4.19 MB read. 64 of
// 132 SMs stream 32 KiB per 370 ns each: 65,536 B a block / 88.6 GB/s = 0.74 us; with launch and latency 2.3 us.

#include "gpu/access_pattern.h"
#include "gpu/gpu_profile.h"
#include "gpu/kernel_work.h"

namespace kvtide::gpu {

/// Zero duration when there are no blocks: no kernel is launched.
/// @throws InputError  negative or non-finite work
[[nodiscard]] KernelTime time_stream(const GpuProfile& profile, MemoryModel& memory, const StreamWork& work);

}  // namespace kvtide::gpu

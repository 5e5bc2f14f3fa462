#pragma once
// A linear layer on the tensor cores: tiles of the output over SMs in waves, beside the bytes of its operands.
//   block    = task_time + max(tile arithmetic, operands / stream rate of one SM)
//   duration = launch + fixed + activation pass + (waves^4 + memory^4)^(1/4) [+ combine when k is split]
// The tile and the parts of k are the best of those a tuned library would choose from. Weights come from device memory:
// between two uses of a layer's weights a whole model passes through L2. Activations and results live in L2 as far as
// they fit. Formats of 8 bit and less quantize the activations first: bytes in and out, and a cost for each row.
//
// Example, H100, m = 8, n = k = 4096, 16 bit: 33.55 MB of weights / (0.94 x 3.35 TB/s) = 10.66 us; 0.27 GFLOP would
// take 0.3 us at 82 % of 989 TFLOP/s: memory bound.

#include "gpu/access_pattern.h"
#include "gpu/gpu_profile.h"
#include "gpu/kernel_work.h"
#include "gpu/l2_cache.h"

namespace kvtide::gpu {

/// @param weights  warm: the same weights are multiplied again and again (some benchmarks); they stay in L2 if they fit
/// @throws InputError  a dimension below 1, products beyond 64 bits
[[nodiscard]] KernelTime time_gemm(const GpuProfile& profile, MemoryModel& memory, const GemmWork& work,
                                   L2State weights = L2State::cold);

}  // namespace kvtide::gpu

#pragma once
// A dense linear layer on the tensor cores: tiles of the output over SMs in waves, or the bytes, whichever takes
// longer.
//   duration = launch + fixed + max(waves x tile time, HBM bytes / rate) [+ combine when k is split]
// Weights and activations come from HBM (cold): between two uses of a layer's weights a whole model passes through L2.
//
// Example, H100, m = 8, n = k = 4096, 16 bit: 33.55 MB of weights / 3.08 TB/s = 10.9 us; 8 x 4096 x 4096 x 2 = 0.27
// GFLOP would take 0.4 us at 76 % of 989 TFLOP/s: memory bound.

#include "gpu/access_pattern.h"
#include "gpu/gpu_profile.h"
#include "gpu/kernel_work.h"

namespace kvtide::gpu {

/// The best of the tile shapes 64x64 .. 128x256 and of 1, 2, 4, 8 parts of k, as a tuned library would choose.
/// @throws InputError  a dimension below 1, products beyond 64 bits, weights of other than 1 or 2 B an element
[[nodiscard]] KernelTime time_gemm(const GpuProfile& profile, MemoryModel& memory, const GemmWork& work);

}  // namespace kvtide::gpu

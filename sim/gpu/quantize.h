#pragma once
// Activations in 16 bit cast to 8 bit, and the search for the scale before it.
//   block    = task_time + its bytes x latency / bytes in flight
//   duration = launch + fixed + (waves^4 + memory time^4)^(1/4)
// A cast moves 3 B an element (2 in, 1 out); the search for the scale reads 2.
//
// Example, H100 by vLLM's record: 1024 rows of 4096 are 1024 blocks of 12,288 B, two resident on each of 132 SMs: 4 waves of
// 0.148 us + 12,288 B x 200 ns (L2) / 7840 B = 0.46 us: 1.85 us, beside 12.6 MB through L2 at 5 TB/s in 2.5 us.

#include "gpu/access_pattern.h"
#include "gpu/gpu_profile.h"
#include "gpu/kernel_work.h"
#include "gpu/l2_cache.h"

namespace kvtide::gpu {

/// @param l2  warm: the kernel before wrote the activations, or a benchmark replays them; they are read from L2 if they fit
/// @throws InputError  a negative count, or more elements than 64 bits of bytes hold
[[nodiscard]] KernelTime time_quantize(const GpuProfile& profile, MemoryModel& memory, const QuantizeWork& work,
                                       L2State l2 = L2State::warm);

}  // namespace kvtide::gpu

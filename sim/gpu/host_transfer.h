#pragma once
// KV pages offloaded to host memory, or recalled from it, over the GPU's PCIe (or coherent) link.
//   duration = latency + max(bytes / (link x payload share), pieces x submission)
// Transfers of whole pages by a copy engine cost the host one submission a piece; a kernel that reads pinned host memory
// itself (zero copy) costs none, but pays the round trip by Little's law over its bytes in flight.
//
// Example, H100 (63 GB/s a direction): 1 GiB in pages of 64 KiB by copy engine: bytes 1.074e9 / (63e9 x 0.91) = 18.7 ms;
// 16,384 pieces x 1.5 us = 24.6 ms: bound by their submission. In pages of 1 MiB 18.7 ms.

#include <cstdint>

#include "base/units.h"
#include "gpu/gpu_profile.h"
#include "gpu/kernel_work.h"

namespace kvtide::gpu {

/// @throws InputError  negative or impossible counts; a profile that names no host link
[[nodiscard]] KernelTime time_host_transfer(const GpuProfile& profile, const HostTransferWork& work);

}  // namespace kvtide::gpu

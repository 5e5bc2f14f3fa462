#pragma once
// Time of a kernel's bytes at the device memory, by access pattern.

#include <cstdint>
#include <vector>

#include "gpu/access_pattern.h"
#include "gpu/gpu_profile.h"

namespace kvtide::gpu {

/// Bytes that share one contiguous run length.
struct Traffic {
  double bytes = 0;
  Bytes chunk_bytes = 0;
  double write_share = 0;
};

struct TrafficTime {
  double seconds = 0;
  double row_hit_rate = 0;  ///< of the largest part
};

/// Sum of bytes / measured rate over the parts, with every SM streaming.
///
/// Approximation: chunks are rounded down to a power of two within 32 B..64 KiB (a 6 KiB page is measured as 4 KiB), so
/// that the `sampled` tier sees few signatures; beyond a DRAM row a longer run gains little. For the same reason the time
/// of mixed reads and writes is read between two shares of writes, eighths, up to 7/8: on HBM3, 4 KiB chunks, within 0.4 %
/// of the share itself at every sixteenth, where the sampled rates are certain to 1 %.
[[nodiscard]] TrafficTime traffic_time(const GpuProfile& profile, MemoryModel& memory,
                                       const std::vector<Traffic>& parts);

}  // namespace kvtide::gpu

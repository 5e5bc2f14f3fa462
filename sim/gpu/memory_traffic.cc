#include "gpu/memory_traffic.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace kvtide::gpu {
namespace {

constexpr Bytes kSmallestChunk = 32;  // one L2 sector
constexpr Bytes kLargestChunk = Bytes{64} << 10;

}  // namespace

TrafficTime traffic_time(const GpuProfile& profile, MemoryModel& memory, const std::vector<Traffic>& parts) {
  TrafficTime total;
  total.row_hit_rate = std::numeric_limits<double>::quiet_NaN();
  double largest = 0;
  for (const Traffic& part : parts) {
    if (part.bytes <= 0) continue;
    AccessPattern pattern;
    pattern.chunk_bytes = std::bit_floor(std::clamp(part.chunk_bytes, kSmallestChunk, kLargestChunk));
    pattern.num_streams = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(profile.num_sms)));
    pattern.write_share = part.write_share;
    pattern.bytes_in_flight = static_cast<Bytes>(profile.num_sms) * profile.bytes_in_flight;
    const MemoryPerformance performance = memory.measure(pattern);
    total.seconds += part.bytes / performance.bytes_per_second;
    if (part.bytes > largest) {
      largest = part.bytes;
      total.row_hit_rate = performance.row_hit_rate;
    }
  }
  return total;
}

}  // namespace kvtide::gpu

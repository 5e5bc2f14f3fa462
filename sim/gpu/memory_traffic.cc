#include "gpu/memory_traffic.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace kvtide::gpu {
namespace {

constexpr Bytes kSmallestChunk = 32;  // one L2 sector
constexpr Bytes kLargestChunk = Bytes{64} << 10;
constexpr double kShareStep = 1.0 / 8;
constexpr double kLastStep = 7.0 / 8;  // beyond, the rate bends too sharply to be read between two shares

struct ByteTime {
  double seconds = 0;
  double row_hit_rate = 0;
};

ByteTime byte_time(MemoryModel& memory, AccessPattern pattern, double write_share) {
  pattern.write_share = write_share;
  const MemoryPerformance performance = memory.measure(pattern);
  return {1.0 / performance.bytes_per_second, performance.row_hit_rate};
}

/// Between the two nearest measured shares, a straight line.
ByteTime byte_time_between(MemoryModel& memory, const AccessPattern& pattern) {
  const double share = pattern.write_share;
  const double lower = std::floor(share / kShareStep) * kShareStep;
  if (share == lower || share > kLastStep) return byte_time(memory, pattern, share);
  const ByteTime below = byte_time(memory, pattern, lower);
  const ByteTime above = byte_time(memory, pattern, lower + kShareStep);
  const double part = (share - lower) / kShareStep;
  return {std::lerp(below.seconds, above.seconds, part), std::lerp(below.row_hit_rate, above.row_hit_rate, part)};
}

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
    const ByteTime one = byte_time_between(memory, pattern);
    total.seconds += part.bytes * one.seconds;
    if (part.bytes > largest) {
      largest = part.bytes;
      total.row_hit_rate = one.row_hit_rate;
    }
  }
  return total;
}

}  // namespace kvtide::gpu

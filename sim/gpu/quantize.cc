#include "gpu/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "gpu/memory_traffic.h"

namespace kvtide::gpu {
namespace {

constexpr double kMaxSeconds = 1e6;  // keeps a duration inside 64 bits of picoseconds
constexpr std::int64_t kMaxElements = std::int64_t{1} << 50;
constexpr double kReadBytes = 2;         // of an element
constexpr double kCastBytes = 1;         // written by the cast; a scale is nothing beside them
constexpr double kOverlap = 4;           // as in decode_attention.cc
constexpr Bytes kRun = Bytes{64} << 10;  // rows lie one after another

}  // namespace

KernelTime time_quantize(const GpuProfile& profile, MemoryModel& memory, const QuantizeWork& work, L2State l2) {
  if (work.num_rows < 0 || work.row_size < 0 || (work.num_rows > 0 && work.row_size > kMaxElements / work.num_rows)) {
    throw InputError(fmt::format("quantize: rows x row_size must be in 0..{}, got {} x {}", kMaxElements, work.num_rows,
                                 work.row_size));
  }
  const std::int64_t num_elements = work.num_rows * work.row_size;
  if (num_elements == 0) return {};
  const QuantizeKernel& kernel = profile.kernels.quantize_kernel(work);
  const bool is_cast = kernel.step == QuantizeStep::cast;
  const double element_bytes = kReadBytes + (is_cast ? kCastBytes : 0);
  const double bytes = element_bytes * static_cast<double>(num_elements);
  const double capacity = static_cast<double>(profile.l2_bytes);  // streamed once: no line is copied to both partitions
  const double hit_rate = l2 == L2State::warm ? cyclic_hit_rate(bytes, capacity) : 0;
  const double latency = hit_rate * profile.l2_latency + (1 - hit_rate) * profile.memory_latency;

  const std::int64_t own = kernel.block_elements > 0 ? std::min(kernel.block_elements, num_elements) : work.row_size;
  const std::int64_t num_blocks = ceil_div(num_elements, own);
  const double block_time = kernel.task_time + static_cast<double>(own) * element_bytes * latency /
                                                   static_cast<double>(kernel.bytes_in_flight);
  const double waves = static_cast<double>(ceil_div(num_blocks, profile.num_sms * kernel.blocks_per_sm)) * block_time;
  const double missed = bytes * (1 - hit_rate);
  // The record's share of the pins holds for its mix of reads and writes; the memory model knows reads of long runs best.
  const TrafficTime hbm = traffic_time(profile, memory, {{missed, kRun, 0}});
  const double memory_time = hbm.seconds * profile.read_efficiency / kernel.memory_share +
                             (bytes - missed) / (profile.l2_bandwidth * kernel.l2_share);
  const double longest = std::max(waves, memory_time);
  const double body = longest * std::pow(1 + std::pow(std::min(waves, memory_time) / longest, kOverlap), 1 / kOverlap);
  const double fixed = profile.graph_launch_latency + kernel.fixed_time;
  if (!(fixed + body < kMaxSeconds)) {
    throw InputError(fmt::format("quantize: the work takes {:.3g} s, more than a million", fixed + body));
  }
  KernelTime time;
  time.duration = from_seconds(fixed + body);
  time.hbm_bytes = static_cast<Bytes>(std::llround(missed));
  time.row_hit_rate = hbm.row_hit_rate;
  time.memory_busy_share = hbm.seconds / (fixed + body);
  time.limited_by = fixed >= body ? "launch" : memory_time >= waves ? "memory" : "in-flight";
  return time;
}

}  // namespace kvtide::gpu

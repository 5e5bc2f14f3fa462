#include "gpu/compress_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "gpu/memory_traffic.h"

namespace kvtide::gpu {
namespace {

constexpr double kMaxSeconds = 1e6;  // keeps a duration inside 64 bits of picoseconds
constexpr double kMaxBytes = 1e18;   // far beyond any device
/// Share of the fp32 peak that scattered, dependent arithmetic reaches. Approximation: half, a multiply-add every other
/// issue slot; the kernel is rarely bound by it.
constexpr double kArithmeticEfficiency = 0.5;

}  // namespace

KernelTime time_compress_blocks(const GpuProfile& profile, MemoryModel& memory, const CompressBlocksWork& work) {
  const double read = static_cast<double>(work.read_bytes);
  const double written = static_cast<double>(work.write_bytes);
  if (work.num_blocks < 0 || !(work.flops >= 0 && std::isfinite(work.flops)) || read + written > kMaxBytes) {
    throw InputError(fmt::format(
        "compress_blocks: num_blocks and flops must be >= 0 and bytes at most 1e18, got {} blocks, {} flop, {:.3g} B",
        work.num_blocks, work.flops, read + written));
  }
  if (work.num_blocks == 0) return {};
  const double num_blocks = static_cast<double>(work.num_blocks);
  const double num_sms = static_cast<double>(profile.num_sms);
  const double waves = std::ceil(num_blocks / num_sms);
  const double sm_stream = static_cast<double>(profile.bytes_in_flight) / profile.memory_latency;
  const double sm_flops = profile.cuda_core_flops * kArithmeticEfficiency / num_sms;
  const double stream = waves * ((read + written) / num_blocks) / sm_stream;
  const double arithmetic = waves * (work.flops / num_blocks) / sm_flops;
  const double write_share = read + written > 0 ? written / (read + written) : 0;
  const TrafficTime hbm = traffic_time(profile, memory, {{read + written, work.chunk_bytes, write_share}});
  const double fixed = profile.graph_launch_latency + profile.memory_latency;
  const double body = std::max({stream, arithmetic, hbm.seconds});
  if (!(fixed + body < kMaxSeconds)) {
    throw InputError(fmt::format("compress_blocks: the work takes {:.3g} s, more than a million", fixed + body));
  }
  KernelTime time;
  time.duration = from_seconds(fixed + body);
  time.hbm_bytes = work.read_bytes + work.write_bytes;
  time.row_hit_rate = hbm.row_hit_rate;
  time.memory_busy_share = hbm.seconds / (fixed + body);
  time.limited_by = fixed >= body         ? "launch"
                    : body == hbm.seconds ? "memory"
                    : body == stream      ? "in-flight"
                                          : "compute";
  return time;
}

}  // namespace kvtide::gpu

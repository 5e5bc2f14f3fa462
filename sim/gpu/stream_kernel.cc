#include "gpu/stream_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "gpu/l2_cache.h"
#include "gpu/memory_traffic.h"

namespace kvtide::gpu {
namespace {

constexpr double kMaxSeconds = 1e6;  // keeps a duration inside 64 bits of picoseconds
constexpr double kMaxBytes = 1e18;   // far beyond any device
/// Share of the fp32 peak that scattered, dependent arithmetic reaches. Approximation: half, a multiply-add every other
/// issue slot; the kernel is rarely bound by it.
constexpr double kArithmeticEfficiency = 0.5;
/// Share of the tensor-core peak that a short product inside such a kernel reaches. Approximation: half, less than a
/// tuned GEMM (0.75 to 0.85 in the calibrated records) because its tiles are ragged.
constexpr double kTensorEfficiency = 0.5;

}  // namespace

KernelTime time_stream(const GpuProfile& profile, MemoryModel& memory, const StreamWork& work) {
  const double read = static_cast<double>(work.read_bytes);
  const double written = static_cast<double>(work.write_bytes);
  const auto is_amount = [](double value) { return value >= 0 && std::isfinite(value); };
  if (work.num_blocks < 0 || work.num_launches < 1 || work.num_launches > 1'000'000 || !is_amount(work.flops) ||
      !is_amount(work.tensor_flops) || read + written > kMaxBytes) {
    throw InputError(
        fmt::format("stream kernel: num_blocks and flops must be >= 0, num_launches in 1..1000000 and bytes "
                    "at most 1e18, got {} blocks, {} and {} flop, {} launches, {:.3g} B",
                    work.num_blocks, work.flops, work.tensor_flops, work.num_launches, read + written));
  }
  if (work.num_blocks == 0) return {};
  const double num_blocks = static_cast<double>(work.num_blocks);
  const double num_sms = static_cast<double>(profile.num_sms);
  const double capacity = static_cast<double>(profile.l2_bytes) * profile.l2_usable_share;
  const double hit_rate = work.input == L2State::warm ? cyclic_hit_rate(read + written, capacity) : 0;
  const double latency = hit_rate * profile.l2_latency + (1 - hit_rate) * profile.memory_latency;
  const double waves = std::ceil(num_blocks / num_sms);
  const double sm_stream = static_cast<double>(profile.bytes_in_flight) / latency;
  const double arithmetic =
      waves / num_blocks * num_sms *
      (work.flops / (profile.cuda_core_flops * kArithmeticEfficiency) +
       work.tensor_flops / (profile.tensor_flops_16bit * profile.tensor_derating * kTensorEfficiency));
  const double stream = waves * ((read + written) / num_blocks) / sm_stream;
  const double write_share = read + written > 0 ? written / (read + written) : 0;
  const double missed = (read + written) * (1 - hit_rate);
  const TrafficTime hbm = traffic_time(profile, memory, {{missed, work.chunk_bytes, write_share}});
  const double memory_time = hbm.seconds + (read + written - missed) / profile.l2_bandwidth;
  const double fixed = static_cast<double>(work.num_launches) * (profile.graph_launch_latency + latency);
  const double body = std::max({stream, arithmetic, memory_time});
  if (!(fixed + body < kMaxSeconds)) {
    throw InputError(fmt::format("stream kernel: the work takes {:.3g} s, more than a million", fixed + body));
  }
  KernelTime time;
  time.duration = from_seconds(fixed + body);
  time.hbm_bytes = static_cast<Bytes>(std::llround(missed));
  time.row_hit_rate = hbm.row_hit_rate;
  time.memory_busy_share = hbm.seconds / (fixed + body);
  time.limited_by = fixed >= body         ? "launch"
                    : body == memory_time ? "memory"
                    : body == stream      ? "in-flight"
                                          : "compute";
  return time;
}

}  // namespace kvtide::gpu

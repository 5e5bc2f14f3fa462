#include "gpu/gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "gpu/memory_traffic.h"

namespace kvtide::gpu {
namespace {

constexpr double kMaxSeconds = 1e6;  // keeps a duration inside 64 bits of picoseconds
constexpr std::int64_t kMaxDimension = std::int64_t{1} << 40;
constexpr Bytes kWeightRun = Bytes{64} << 10;  // weights are streamed in order: long runs
constexpr double kActivationBytes = 2;         // of an element, in and out

struct TileShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
};
// Output tiles of CUTLASS's Hopper and Ampere kernels (its default configurations).
constexpr std::array kTiles{TileShape{64, 64}, TileShape{64, 128}, TileShape{128, 128}, TileShape{128, 256}};
constexpr std::array<std::int64_t, 4> kSplits{1, 2, 4, 8};
constexpr std::int64_t kShortestPart = 128;  // of k: two steps of 64, less leaves nothing to overlap

void check(const GpuProfile& profile, const GemmWork& work) {
  for (const std::int64_t dimension : {work.m, work.n, work.k}) {
    if (dimension < 1 || dimension > kMaxDimension) {
      throw InputError(
          fmt::format("gemm: m, n and k must be in 1..{}, got {} x {} x {}", kMaxDimension, work.m, work.n, work.k));
    }
  }
  if (work.weight_bytes_per_element != 1 && work.weight_bytes_per_element != 2) {
    throw InputError(
        fmt::format("gemm: weight_bytes_per_element must be 1 or 2, got {}", work.weight_bytes_per_element));
  }
  if (work.weight_bytes_per_element == 1 && profile.tensor_flops_8bit <= 0) {
    throw InputError(fmt::format("gemm: {} has no 8-bit floating-point tensor cores", profile.name));
  }
}

/// Seconds in the tensor cores for the best tile and split.
double tensor_time(const GpuProfile& profile, const GemmWork& work) {
  const double num_sms = static_cast<double>(profile.num_sms);
  const double rate = (work.weight_bytes_per_element == 1 ? profile.tensor_flops_8bit : profile.tensor_flops_16bit) *
                      profile.gemm.tensor_efficiency / num_sms;
  double best = std::numeric_limits<double>::infinity();
  for (const TileShape& tile : kTiles) {
    const double num_tiles =
        static_cast<double>(ceil_div(work.m, tile.m)) * static_cast<double>(ceil_div(work.n, tile.n));
    for (const std::int64_t parts : kSplits) {
      if (parts > 1 && work.k / parts < kShortestPart) break;
      const double own_k = static_cast<double>(work.k) / static_cast<double>(parts);
      const double block_time = 2 * static_cast<double>(tile.m * tile.n) * own_k / rate;
      const double waves = std::ceil(num_tiles * static_cast<double>(parts) / num_sms);
      best = std::min(best, waves * block_time + (parts > 1 ? profile.gemm.combine_time : 0));
    }
  }
  return best;
}

}  // namespace

KernelTime time_gemm(const GpuProfile& profile, MemoryModel& memory, const GemmWork& work) {
  check(profile, work);
  const double m = static_cast<double>(work.m);
  const double n = static_cast<double>(work.n);
  const double k = static_cast<double>(work.k);
  const double read = n * k * static_cast<double>(work.weight_bytes_per_element) + m * k * kActivationBytes;
  const double written = m * n * kActivationBytes;
  // Writes of a GEMM come in bursts of whole tiles; they are priced at the read rate.
  const TrafficTime hbm = traffic_time(profile, memory, {{read + written, kWeightRun, 0}});
  const double tensor = tensor_time(profile, work);
  const double fixed = profile.graph_launch_latency + profile.gemm.fixed_time;
  const double body = std::max(tensor, hbm.seconds);
  if (!(fixed + body < kMaxSeconds)) {
    throw InputError(
        fmt::format("gemm: {} x {} x {} takes {:.3g} s, more than a million", work.m, work.n, work.k, body));
  }
  KernelTime time;
  time.duration = from_seconds(fixed + body);
  time.hbm_bytes = static_cast<Bytes>(std::llround(read + written));
  time.row_hit_rate = hbm.row_hit_rate;
  time.memory_busy_share = hbm.seconds / (fixed + body);
  time.limited_by = fixed >= body ? "launch" : tensor > hbm.seconds ? "compute" : "memory";
  return time;
}

}  // namespace kvtide::gpu

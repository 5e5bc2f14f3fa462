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
constexpr double kMaxProduct = 1e30;            // of m, n, k and groups: keeps every count finite
constexpr Bytes kOperandRun = Bytes{64} << 10;  // weights are streamed in order: long runs
constexpr double kOutputBytes = 2;              // of a result
constexpr double kPartialBytes = 4;             // of a partial sum when k is split
constexpr double kOverlap = 4;                  // loads and arithmetic overlap nearly, as in decode_attention.cc
constexpr std::int64_t kShortestPart = 128;     // of k: two steps of 64, less leaves nothing to overlap

struct TileShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
};
// Output tiles that CUTLASS and cuBLAS are compiled for on these GPUs, the narrow ones for few rows or columns: a library
// computes a product or its transpose.
constexpr std::array kTiles{TileShape{16, 64},  TileShape{16, 128},  TileShape{32, 64},  TileShape{32, 128},
                            TileShape{64, 32},  TileShape{64, 64},   TileShape{128, 32}, TileShape{64, 128},
                            TileShape{128, 64}, TileShape{128, 128}, TileShape{64, 256}, TileShape{128, 256},
                            TileShape{256, 128}};

/// Bytes and rates of one call.
struct Call {
  double m = 0, n = 0, k = 0, groups = 1;
  double activation_bytes = 0;  ///< of an element
  double weight_bytes = 0;
  double activation_stream = 0;  ///< B/s that one SM loads
  double weight_stream = 0;
  double tensor = 0;      ///< FLOP/s of one SM
  double conversion = 0;  ///< seconds of one SM for a weight
  double memory_time = 0;
};

void check(const GemmWork& work) {
  double product = static_cast<double>(std::max<std::int64_t>(1, work.num_groups));
  for (const std::int64_t dimension : {work.m, work.n, work.k}) {
    product *= static_cast<double>(dimension);
    if (dimension < 1 || dimension > kMaxDimension) {
      throw InputError(
          fmt::format("gemm: m, n and k must be in 1..{}, got {} x {} x {}", kMaxDimension, work.m, work.n, work.k));
    }
  }
  if (work.num_groups < 1 || work.num_groups > kMaxDimension || product > kMaxProduct) {
    throw InputError(
        fmt::format("gemm: {} groups of {} x {} x {} are out of range", work.num_groups, work.m, work.n, work.k));
  }
}

/// Seconds of the body for the best tile and number of parts.
double best_body(const GpuProfile& profile, const GemmKernel& kernel, const Call& call) {
  const double sms = static_cast<double>(profile.num_sms);
  double best = std::numeric_limits<double>::infinity();
  for (const TileShape& tile : kTiles) {
    if (std::min(tile.m, tile.n) < kernel.smallest_tile) continue;
    const double tile_m = static_cast<double>(tile.m);
    const double tile_n = static_cast<double>(tile.n);
    const double num_tiles = call.groups * std::ceil(call.m / tile_m) * std::ceil(call.n / tile_n);
    for (std::int64_t parts = 1; parts <= kernel.max_splits; parts *= 2) {
      const double split = static_cast<double>(parts);
      if (parts > 1 && call.k / split < static_cast<double>(kShortestPart)) break;
      const double own_k = std::ceil(call.k / split);
      const double columns = std::min(tile_n, call.n);  // rows and columns beyond the matrix are computed, not loaded
      const double products = own_k * 2 * tile_m * tile_n / call.tensor;
      const double arithmetic = std::max(products, own_k * tile_n * call.conversion);
      const double load = own_k * (std::min(tile_m, call.m) * call.activation_bytes / call.activation_stream +
                                   columns * call.weight_bytes / call.weight_stream);
      const double waves = std::ceil(num_tiles * split / sms) * (kernel.task_time + std::max(arithmetic, load));
      const double longest = std::max(waves, call.memory_time);
      const double body =
          longest * std::pow(1 + std::pow(std::min(waves, call.memory_time) / longest, kOverlap), 1 / kOverlap);
      const double combine =
          parts > 1 ? kernel.combine_time + call.groups * call.m * call.n * kPartialBytes * split / profile.l2_bandwidth
                    : 0;
      best = std::min(best, body + combine);
    }
  }
  return best;
}

}  // namespace

KernelTime time_gemm(const GpuProfile& profile, MemoryModel& memory, const GemmWork& work, L2State weights) {
  check(work);
  const GemmKernel& kernel = profile.kernels.gemm_kernel(work);
  const double sms = static_cast<double>(profile.num_sms);
  Call call{.m = static_cast<double>(work.m),
            .n = static_cast<double>(work.n),
            .k = static_cast<double>(work.k),
            .groups = static_cast<double>(work.num_groups),
            .activation_bytes = activation_bytes(work.format),
            .weight_bytes = weight_bytes(work.format)};
  const double all_weights = call.groups * call.n * call.k * call.weight_bytes;
  const double activations = call.groups * call.m * (call.k * call.activation_bytes + call.n * kOutputBytes);
  const double capacity = static_cast<double>(profile.l2_bytes) * profile.l2_usable_share;
  const bool is_warm = weights == L2State::warm;
  const double hit_rate = cyclic_hit_rate(activations + (is_warm ? all_weights : 0), capacity);
  const double weight_hit_rate = is_warm ? hit_rate : 0;
  const double missed = all_weights * (1 - weight_hit_rate) + activations * (1 - hit_rate);
  // Writes of a GEMM come in bursts of whole tiles; they are priced at the read rate.
  const TrafficTime hbm = traffic_time(profile, memory, {{missed, kOperandRun, 0}});
  call.memory_time = hbm.seconds + (all_weights + activations - missed) / profile.l2_bandwidth;
  const auto latency = [&](double hits) { return hits * profile.l2_latency + (1 - hits) * profile.memory_latency; };
  call.activation_stream = static_cast<double>(kernel.bytes_in_flight) / latency(hit_rate);
  call.weight_stream = static_cast<double>(kernel.bytes_in_flight) / latency(weight_hit_rate);
  if (kernel.converted_per_cycle > 0) call.conversion = 1 / (kernel.converted_per_cycle * profile.clock);
  call.tensor = tensor_rate(profile, work.format) * kernel.tensor_efficiency / sms;

  const double body = best_body(profile, kernel, call);
  double pass = 0;
  if (kernel.pass_bytes > 0) {
    const double elements = call.groups * call.m * call.k;
    const double pass_hit_rate = cyclic_hit_rate(elements * (kOutputBytes + call.activation_bytes), capacity);
    const double moved = elements * kernel.pass_bytes;
    const double from_l2 = moved * pass_hit_rate / profile.l2_bandwidth;
    const double from_hbm = traffic_time(profile, memory, {{moved * (1 - pass_hit_rate), kOperandRun, 0}}).seconds;
    pass = std::max(call.groups * call.m * kernel.row_time / sms, from_l2 + from_hbm);
  }
  const double fixed = profile.graph_launch_latency + kernel.fixed_time;
  const double total = std::max(fixed + pass + body, work.from_host ? kernel.host_time : 0);
  if (!(total < kMaxSeconds)) {
    throw InputError(
        fmt::format("gemm: {} x {} x {} takes {:.3g} s, more than a million", work.m, work.n, work.k, total));
  }
  KernelTime time;
  time.duration = from_seconds(total);
  time.hbm_bytes = static_cast<Bytes>(std::llround(missed));
  time.row_hit_rate = hbm.row_hit_rate;
  time.memory_busy_share = hbm.seconds / total;
  time.limited_by = fixed >= body + pass || total > fixed + pass + body ? "launch"
                    : call.memory_time >= 0.8 * body                    ? "memory"
                                                                        : "compute";
  return time;
}

}  // namespace kvtide::gpu

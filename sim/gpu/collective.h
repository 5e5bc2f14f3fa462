#pragma once
// Collectives of tensor, pipeline and expert parallelism: the cost of each algorithm from link rate, latency and steps,
// and which one a framework takes.
//
//   ring      launch + min(steps x latency + W / small rate, ramp + steps x (latency + sync) + W' / large rate)
//             all-reduce: 2 (n - 1) steps, W = 2 (n - 1) / n x bytes; all-gather, reduce-scatter: half of both
//             W' = W x (steps + 1/3) / steps: a pipeline of `steps` copies also fills and drains
//   in switch launch + ramp + bytes x (1 + 1 / n) / switch rate (sums made by the switch)
//   one-shot  launch + (n - 1) x bytes / rate: every rank reads all peers whole
//   two-shot  launch + 2 x bytes / rate: every rank sums its part, then reads the other sums
//
// Example, H100, 8 ranks, NCCL, 16 KiB: 14 x 0.71 + 5.7 us + 28,672 B / 139.5 GB/s = 15.8 us. vLLM's one-shot kernel:
// 4.5 us + 7 x 16,384 B / 256.5 GB/s = 4.9 us.

#include <cstdint>
#include <string>

#include "gpu/gpu_profile.h"
#include "gpu/kernel_work.h"

namespace kvtide::gpu {

enum class CollectiveKind : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all };

struct CollectiveWork {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::int64_t num_ranks = 1;
  Bytes bytes = 0;  ///< all_reduce: one rank's buffer; the others: the whole that is gathered, scattered or exchanged
  bool is_floating = true;  ///< the switch sums floating-point only
  std::string library{};    ///< "nccl", "oneccl", "vllm", "trtllm"; empty: vllm
  bool has_graph = true;    ///< replayed from a CUDA graph; else paced by the host, and the result is a copy
  bool operator==(const CollectiveWork&) const = default;
};

/// Bytes one rank sends.
/// Example: all-reduce of 32,768 B over 2 ranks: 2 x 1/2 x 32,768 = 32,768 B.
[[nodiscard]] double bytes_sent_per_rank(const CollectiveWork& work);

/// Zero duration for one rank. @throws InputError  more ranks than the interconnect joins, unknown library
[[nodiscard]] KernelTime time_collective(const GpuProfile& profile, const CollectiveWork& work);

/// From one rank to the next pipeline stage: launch + latency + bytes / large rate.
[[nodiscard]] KernelTime time_send(const GpuProfile& profile, Bytes bytes);

}  // namespace kvtide::gpu

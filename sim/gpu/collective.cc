#include "gpu/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "gpu/link_topology.h"

namespace kvtide::gpu {
namespace {

constexpr double kPipelineFill = 1.0 / 3;  // of a step: calibrated on large NCCL all-reduces of 2, 4 and 8 ranks
/// Largest message of TensorRT-LLM's one-shot kernel: its workspace (8 MiB, cpp/tensorrt_llm/plugins/common).
constexpr Bytes kLamportBytes = Bytes{8} << 20;
constexpr double kMaxBytes = 1e15;

// vLLM's own kernel turns from one-shot to two-shot (csrc/custom_all_reduce.cuh); two ranks stay one-shot.
Bytes one_shot_limit(std::int64_t num_ranks) {
  if (num_ranks <= 2) return ~Bytes{0};
  return num_ranks <= 4 ? Bytes{512} << 10 : Bytes{256} << 10;
}

std::int64_t num_steps(const CollectiveWork& work) {
  switch (work.kind) {
    case CollectiveKind::all_reduce:
      return 2 * (work.num_ranks - 1);
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
      return work.num_ranks - 1;
    case CollectiveKind::all_to_all:
      return 1;
  }
  return 1;
}

/// The costs of the algorithms, in seconds.
struct Costs {
  const Interconnect& link;
  const CollectiveWork& work;
  LinkTopology topology{link, work.num_ranks};
  double bytes = static_cast<double>(work.bytes);
  double num_ranks = static_cast<double>(work.num_ranks);

  [[nodiscard]] double ring() const {
    const auto steps = static_cast<double>(num_steps(work));
    const double sent = bytes_sent_per_rank(work);
    // A mesh runs as many rings as it has disjoint ones, which loads every link alike.
    const bool is_direct = work.kind == CollectiveKind::all_to_all || link.kind == LinkKind::mesh;
    const double wire = is_direct ? topology.direct_time(sent) : topology.ring_time(sent);
    const double small = steps * link.link_latency + wire / link.ring_small_share;
    const double large = link.ring_ramp + steps * (link.link_latency + link.ring_step_sync) +
                         wire * (steps + kPipelineFill) / steps / link.ring_large_share;
    double best = link.ring_launch + std::min(small, large);
    const bool may_switch =
        link.switch_share > 0 && work.kind == CollectiveKind::all_reduce && work.is_floating && work.num_ranks > 2;
    if (may_switch) {
      best = std::min(best, link.ring_launch + link.switch_ramp +
                                topology.direct_time(bytes * (1 + 1 / num_ranks)) / link.switch_share);
    }
    return best;
  }
  [[nodiscard]] double one_shot(double launch) const {
    return launch + topology.direct_time((num_ranks - 1) * bytes) / link.one_shot_share;
  }
  [[nodiscard]] double two_shot() const {
    return link.two_shot_launch + topology.direct_time(2 * bytes) / link.two_shot_share;
  }
};

double vllm_all_reduce(const Costs& costs) {
  const CollectiveWork& work = costs.work;
  for (const PeerKernelLimit& limit : costs.link.limits) {
    if (limit.num_ranks != work.num_ranks) continue;
    if (work.bytes < limit.custom_bytes) {
      return work.bytes < one_shot_limit(work.num_ranks) ? costs.one_shot(costs.link.one_shot_launch)
                                                         : costs.two_shot();
    }
    if (work.bytes <= limit.symmetric_bytes) return costs.two_shot();
  }
  return costs.ring();
}

void check(const CollectiveWork& work) {
  static const std::vector<std::string> kLibraries{"", "nccl", "oneccl", "vllm", "trtllm"};
  if (std::ranges::find(kLibraries, work.library) == kLibraries.end())
    throw InputError(fmt::format("collective: no library \"{}\" (nccl, oneccl, vllm, trtllm)", work.library));
  if (static_cast<double>(work.bytes) > kMaxBytes)
    throw InputError(fmt::format("collective: at most 1e15 B, got {}", work.bytes));
}

}  // namespace

double bytes_sent_per_rank(const CollectiveWork& work) {
  const auto num_ranks = static_cast<double>(work.num_ranks);
  const double passes = work.kind == CollectiveKind::all_reduce ? 2 : 1;
  return passes * (num_ranks - 1) / num_ranks * static_cast<double>(work.bytes);
}

KernelTime time_collective(const GpuProfile& profile, const CollectiveWork& work) {
  check(work);
  if (work.num_ranks <= 1) return {};
  const Interconnect& link = profile.interconnect;
  const Costs costs{link, work};
  const bool has_peer_kernels = work.kind == CollectiveKind::all_reduce && link.one_shot_share > 0;
  double duration = 0;
  if (has_peer_kernels && (work.library.empty() || work.library == "vllm")) {
    duration = vllm_all_reduce(costs);
  } else {
    duration = costs.ring();
    if (has_peer_kernels && work.library == "trtllm" && link.lamport_launch > 0 && work.bytes <= kLamportBytes)
      duration = std::min(duration, costs.one_shot(link.lamport_launch));
  }
  if (!work.has_graph) {
    const double copy = 2 * costs.bytes / (profile.bandwidth * profile.read_efficiency);
    duration = std::max(link.host_launch, duration + copy);
  }
  KernelTime time;
  time.duration = from_seconds(duration);
  time.hbm_bytes = static_cast<Bytes>(std::llround(2 * bytes_sent_per_rank(work)));  // read here, written there
  time.limited_by = duration < 2 * (link.ring_launch + link.link_latency) ? "launch" : "link";
  return time;
}

KernelTime time_send(const GpuProfile& profile, Bytes bytes) {
  const Interconnect& link = profile.interconnect;
  const double rate = link.link_bandwidth * link.ring_large_share;
  const double body = link.link_latency + static_cast<double>(bytes) / rate;
  KernelTime time;
  time.duration = from_seconds(link.ring_launch + body);
  time.hbm_bytes = 2 * bytes;
  time.limited_by = body > link.ring_launch ? "link" : "launch";
  return time;
}

}  // namespace kvtide::gpu

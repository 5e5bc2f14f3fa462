#include "gpu/host_transfer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace kvtide::gpu {
namespace {

constexpr double kMaxSeconds = 1e6;  // keeps a duration inside 64 bits of picoseconds
/// Of the bytes on a PCIe link: packets of 256 B behind about 26 B of framing, sequence, header and checksum
/// (PCI Express Base Specification, transaction layer packets): 256 / 282.
constexpr double kPayloadShare = 256.0 / 282;
/// From the call until the first byte is on its way and back. Approximation: a PCIe round trip of about 1 us (RRZE
/// gpu-benches measures launches of the same order) and the copy engine's start.
constexpr double kLatency = 2e-6;
/// One cudaMemcpyAsync on the host. Approximation: 1.5 us, as a stream launch.
constexpr double kSubmission = 1.5e-6;
/// Round trip of a load from pinned host memory, s. Approximation: 1.2 us.
constexpr double kRoundTrip = 1.2e-6;

}  // namespace

KernelTime time_host_transfer(const GpuProfile& profile, const HostTransferWork& work) {
  if (work.num_pieces < 0 || work.num_pieces > (std::int64_t{1} << 40)) {
    throw InputError(fmt::format("host transfer: num_pieces must be in 0..2^40, got {}", work.num_pieces));
  }
  if (profile.host_bandwidth <= 0) {
    throw InputError(fmt::format("host transfer: {} names no host_link", profile.name));
  }
  if (work.bytes == 0 || work.num_pieces == 0) return {};
  const double bytes = static_cast<double>(work.bytes);
  const double link = bytes / (profile.host_bandwidth * kPayloadShare);
  const double flight = static_cast<double>(profile.num_sms) * static_cast<double>(profile.bytes_in_flight);
  const double pieces =
      work.by_kernel ? bytes * kRoundTrip / flight : static_cast<double>(work.num_pieces) * kSubmission;
  const double fixed = (work.by_kernel ? profile.graph_launch_latency : 0) + kLatency;
  const double body = std::max(link, pieces);
  if (!(fixed + body < kMaxSeconds)) {
    throw InputError(fmt::format("host transfer: the work takes {:.3g} s, more than a million", fixed + body));
  }
  KernelTime time;
  time.duration = from_seconds(fixed + body);
  time.hbm_bytes = work.bytes;
  time.memory_busy_share = std::min(1.0, bytes / (profile.bandwidth * profile.read_efficiency) / (fixed + body));
  time.limited_by = fixed >= body ? "launch" : link >= pieces ? "link" : "in-flight";
  return time;
}

}  // namespace kvtide::gpu

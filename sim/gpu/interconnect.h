#pragma once
// How the GPUs of one node reach each other, as data: hw_profiles/interconnects/<name>.yaml. Bandwidths are of one
// direction. (Headline NVLink figures add both: 900 GB/s of an H100 are 450 GB/s each way.)

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "gpu/attention_kernel.h"

namespace kvtide::gpu {

enum class LinkKind : std::uint8_t {
  crossbar,      ///< every GPU on one switch (NVSwitch)
  mesh,          ///< one link between every two GPUs (xGMI)
  root_complex,  ///< pairs of GPUs below a PCIe root port, the rest across the host
};

/// Message sizes up to which a framework uses its own kernels instead of the library.
struct PeerKernelLimit {
  std::int64_t num_ranks = 0;
  Bytes custom_bytes = 0;     ///< below: one-shot for small, two-shot for larger messages
  Bytes symmetric_bytes = 0;  ///< from custom_bytes up to this: two-shot through symmetric memory
};

/// Times in seconds. Shares are of the link bandwidth.
struct Interconnect {
  std::string name;
  LinkKind kind = LinkKind::crossbar;
  std::int64_t max_ranks = 0;
  double link_bandwidth = 0;   ///< B/s; of a GPU's port on a switch, of one link of a mesh, of a PCIe slot
  double link_latency = 0;     ///< a small message and its flag, from one GPU's memory to another's
  double cross_bandwidth = 0;  ///< B/s of a GPU towards GPUs of another root port; root_complex only

  // Rings of a collective library.
  double ring_launch = 0;       ///< once a call
  double ring_ramp = 0;         ///< more for large messages, which fill deep buffers first
  double ring_step_sync = 0;    ///< more for large messages, per ring step
  double ring_small_share = 0;  ///< of messages that carry a flag in every word (NCCL's LL protocols)
  double ring_large_share = 0;  ///< of plain copies (NCCL's Simple protocol)

  // Sums made by the switch (NVLS); share 0: it cannot.
  double switch_ramp = 0;
  double switch_share = 0;

  // Kernels that read their peers' memory; share 0: none.
  double lamport_launch = 0;  ///< TensorRT-LLM's one-shot kernel; 0: not used here
  double one_shot_launch = 0;
  double two_shot_launch = 0;
  double one_shot_share = 0;
  double two_shot_share = 0;
  std::vector<PeerKernelLimit> limits;  ///< by rank count

  double host_launch = 0;  ///< a collective without a CUDA graph lasts no less: the host's pace
};

/// @param facts  every value with its source is appended
/// @throws InputError  unknown name with the known ones; wrong or missing keys
[[nodiscard]] Interconnect load_interconnect(const std::string& name_or_path, std::vector<ProfileFact>& facts);

}  // namespace kvtide::gpu

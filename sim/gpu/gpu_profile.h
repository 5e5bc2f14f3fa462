#pragma once
// A GPU as data: what hw_profiles/<name>.yaml says of its SMs, clocks, L2, device memory and attention kernel.
//
// Every quantity in the file is written {value: "3.35 TB/s", source: "..."}. Marketing and reported sizes differ: a
// card sold as 80 GB reports 81,559 MiB = 85,520,809,984 B, and only the reported figure can be allocated. Bus x rate
// must reproduce the bandwidth: 5120 bit x 5.234 Gbit/s / 8 = 3.350e12 B/s.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "gpu/attention_kernel.h"
#include "gpu/interconnect.h"
#include "gpu/kernel_set.h"

namespace kvtide::gpu {

struct GpuProfile {
  std::string name;                  ///< "h100-sxm"
  std::vector<std::string> aliases;  ///< other spellings that load the same file

  // Device memory.
  Bytes reported_bytes = 0;     ///< what the driver reports, never the marketing figure
  std::string memory_standard;  ///< hw_profiles/memory/<this>.yaml
  std::int64_t num_stacks = 0;
  std::int64_t num_channels = 0;  ///< over all stacks
  std::int64_t bus_bits = 0;
  double data_rate = 0;                 ///< bit/s per pin
  double bandwidth = 0;                 ///< B/s at the pins
  std::int64_t memory_queue_size = 0;   ///< requests that one channel's scheduler can reorder
  Bytes tlb_reach = 0;                  ///< spread of scattered reads beyond which page misses dominate; 0: not known
  bool refreshes_bank_by_bank = false;  ///< else all banks of a pseudo channel at once
  std::string bandwidth_note;           ///< why bus x rate differs from bandwidth by more than 1 %; else empty

  // L2.
  Bytes l2_bytes = 0;
  double l2_usable_share = 1;     ///< of l2_bytes that a working set can use before it spills, (0, 1]
  double l2_bandwidth = 0;        ///< B/s
  double l2_latency = 0;          ///< s, load to use, mean over near and far partition
  double memory_latency = 0;      ///< s, load to use, unloaded
  double read_efficiency = 0.92;  ///< of the pins, best read-only streams; used by the roofline tier only

  // SMs.
  std::int64_t num_sms = 0;
  double clock = 0;               ///< Hz, the clock of the throughput figures
  double tensor_flops_16bit = 0;  ///< dense FLOP/s over the device
  double tensor_flops_8bit = 0;   ///< 0: no 8-bit floating-point tensor cores
  double tensor_ops_int8 = 0;     ///< dense int8 operations/s; 0: none
  double tensor_flops_4bit = 0;   ///< 0: no 4-bit floating-point tensor cores
  /// What large matrix products reach of tensor_flops_16bit here, relative to the same share on the GPUs that the kernel
  /// set was calibrated on, at most 1 (power and clocks: a GB200 reaches 0.73, a B300 0.79: 0.93).
  double tensor_derating = 1;
  double cuda_core_flops = 0;  ///< fp32 FLOP/s, a multiply-add counted as 2
  Bytes bytes_in_flight = 0;   ///< per SM, of a plain streaming kernel with all threads resident

  double graph_launch_latency = 0;   ///< s between dependent kernels of a CUDA graph
  double stream_launch_latency = 0;  ///< s between dependent kernels launched one by one
  double host_launch_time = 0;  ///< s the host needs to submit one attention call where no graph is replayed: the GPU
                                ///< works meanwhile, so a call takes the longer of both; 0 with graphs

  double host_bandwidth = 0;  ///< B/s to host memory, one direction; 0: not known

  std::vector<AttentionKernel> attention_kernels;  ///< at least one; the first is the default
  Interconnect interconnect;
  KernelSet kernels;  ///< of the nearest calibrated architecture: prefill attention, GEMM, quantize
  std::vector<ProfileFact> facts;

  /// The kernel that runs this work: of the wanted name, or the first of the wanted framework that serves it.
  /// @param wanted  empty: the framework of the first kernel
  /// @return null where there is none
  [[nodiscard]] const AttentionKernel* find_attention_kernel(const std::string& wanted,
                                                             const DecodeAttentionWork& work) const;
  /// The same. @throws InputError listing what is known, or saying that no kernel of the framework serves the work
  [[nodiscard]] const AttentionKernel& attention_kernel(const std::string& wanted,
                                                        const DecodeAttentionWork& work) const;
};

/// @param name_or_path  a name or alias in hw_profiles/, or a path to a YAML file
/// @throws InputError   with file, line and key: unknown name, missing source, bus x rate off by more than 1 % without
/// a note
[[nodiscard]] GpuProfile load_gpu_profile(const std::string& name_or_path);

/// Reads a profile from text. @param origin shown in messages instead of a file name
[[nodiscard]] GpuProfile parse_gpu_profile(const std::string& text, const std::string& origin);

/// Names of the profiles that ship, sorted; aliases are not listed.
[[nodiscard]] std::vector<std::string> known_gpus();

}  // namespace kvtide::gpu

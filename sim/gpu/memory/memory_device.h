#pragma once
// The device memory of one GPU: units of a standard, their data rate, and the model that answers for them.

#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/units.h"
#include "gpu/access_pattern.h"
#include "gpu/memory/memory_standard.h"

namespace kvtide::gpu {

/// Example, H100 SXM: 80 HBM3 channels (5 stacks x 16) of 2 pseudo channels x 32 bit at 5.24 Gb/s:
/// 160 * 32 * 5.24e9 / 8 = 3.354e12 B/s.
struct MemoryDevice {
  MemoryStandard standard;
  std::int64_t num_channels = 0;      ///< over all units, any count (80, 96, 120, ...); > 0
  double data_rate = 0;               ///< bit/s per pin; > 0. Timings keep their ns, the clock scales
  double roofline_efficiency = 0.92;  ///< of peak, used by the roofline tier only; read-only streams reach .92-.96 of
                                      ///< peak on A100 and H100 PCIe (RRZE gpu-benches 1c36d50, gpu-stream)

  /// Requests one channel's scheduler looks at, 1..4096. With 64, random 4 KiB pages reach 0.70 of an H100's pins; with
  /// 256, 0.90: what a GPU's controllers see of all SMs is deep.
  std::int64_t queue_size = 64;
  RefreshMode refresh = RefreshMode::all_bank;

  [[nodiscard]] std::int64_t num_pseudo_channels() const {
    return num_channels * standard.geometry.num_pseudo_channels;
  }
  /// Pin bandwidth in B/s.
  [[nodiscard]] double peak_bytes_per_second() const {
    return static_cast<double>(num_pseudo_channels() * standard.geometry.pseudo_channel_bits) * data_rate / 8.0;
  }
  /// @throws InputError
  void validate() const;
};

/// @param signatures  folder in which the sampled tier keeps what it found out; empty: in memory only
/// @throws InputError when the device is not valid
[[nodiscard]] std::unique_ptr<MemoryModel> make_memory_model(const MemoryDevice& device, Fidelity fidelity,
                                                             const std::filesystem::path& signatures = {});

}  // namespace kvtide::gpu

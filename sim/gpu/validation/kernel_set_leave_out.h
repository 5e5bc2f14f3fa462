#pragma once
// Prefill attention, GEMM, casts and collectives of a GPU as if its rows had never been measured (the part of leave_out.h
// beyond decode attention).

#include <string>
#include <vector>

#include "gpu/gpu_profile.h"

namespace kvtide::gpu {

/// The kernel set of the donor without any record that was calibrated on the left-out GPU alone; records that both share
/// are fitted again to the donor's rows.
///
/// @param donor     the GPU of the nearest architecture
/// @param csv_name  how sources and files spell the left-out GPU, "h100_sxm"; empty: nothing is forgotten
/// @param paths     files <gpu>_<operation>.csv; those of the donor are fitted to
[[nodiscard]] KernelSet kernel_set_without(const GpuProfile& donor, const std::string& csv_name,
                                           const std::vector<std::string>& paths);

/// The interconnect with its links' number, kind and bandwidth, and every other constant from the nearest GPU whose rows
/// are not forgotten: NVLink of an older or newer generation, PCIe of the other vendor.
/// @throws InputError  no such GPU is known
[[nodiscard]] Interconnect interconnect_without(const GpuProfile& profile);

}  // namespace kvtide::gpu

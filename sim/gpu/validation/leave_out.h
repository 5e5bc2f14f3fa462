#pragma once
// A GPU as the model would know it had none of its rows been measured: what is calibrated comes from the nearest
// architecture, and kernels that were calibrated on its rows together with a sibling's are fitted again without them.
//
// Kept: datasheet, memory standard, published latencies and L2 figures. Replaced: attention kernels and the share of the
// pins that large reads reach; the host's submission time is forgotten. What stays known, and cannot be forgotten: the
// model's form, each framework's split rule and which shapes it gives to which kernel.

#include <string>
#include <vector>

#include "gpu/gpu_profile.h"

namespace kvtide::gpu {

/// @param gpu    name or alias of a profile
/// @param paths  measured files; of those, rows of other GPUs feed the new fits
/// @throws InputError  no nearest architecture is known for this GPU, damaged tables
[[nodiscard]] GpuProfile leave_out(const std::string& gpu, const std::vector<std::string>& paths);

/// Whether anything was calibrated on rows of this GPU. One that was never measured has nothing to leave out: its profile is
/// what `leave_out` would make.
[[nodiscard]] bool has_rows_to_leave_out(const std::string& profile_name);

/// Profiles whose kernels stand in for those of a GPU that was never measured, nearest first.
/// @throws InputError  none is known
[[nodiscard]] std::vector<std::string> nearest_gpus(const std::string& profile_name);

}  // namespace kvtide::gpu

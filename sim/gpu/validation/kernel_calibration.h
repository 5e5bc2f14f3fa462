#pragma once
// The free constants of one attention kernel, fitted to measured times (constant_fit.h).
//
// What is fitted: every time of the kernel that is not zero, its tensor efficiency, and its transpose rate and memory
// share where it has them. What is not: split rule, tiles, resident blocks, bytes in flight, which shapes the kernel serves.

#include <vector>

#include "gpu/gpu_profile.h"
#include "gpu/kernel_work.h"
#include "gpu/l2_cache.h"

namespace kvtide::gpu {

/// One measured call. The work's kernel name is ignored.
struct CalibrationRow {
  std::size_t profile = 0;  ///< index into the profiles
  DecodeAttentionWork work;
  double microseconds = 0;  ///< measured, > 0
};

/// @param start     times as cycles of its own clock; also the starting point
/// @param profiles  the GPUs that the rows were measured on
/// @param rows      at least one
/// @return the fitted kernel at the clock of `start`; deterministic
[[nodiscard]] AttentionKernel calibrate_kernel(const AttentionKernel& start, const std::vector<GpuProfile>& profiles,
                                               const std::vector<CalibrationRow>& rows);

}  // namespace kvtide::gpu

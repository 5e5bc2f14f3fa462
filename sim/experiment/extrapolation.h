#pragma once
// Where a run's figures leave what the models behind them were compared with (docs/how-far-to-trust.md).

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "experiment/setting.h"
#include "gpu/gpu_profile.h"

namespace kvtide::experiment {

/// Largest context, GPU count and the block sizes of the outside measurements; the rows are those of `kvtide validate`.
inline constexpr std::int64_t kLongestMeasuredContext = 131072;  ///< decode attention rows, positions

/// Most sequences of the decode attention rows up to a context, on the GPU that has most; all batches are powers of two.
struct MeasuredBatch {
  std::int64_t positions = 0;
  std::int64_t sequences = 0;
};
inline constexpr std::array kMeasuredBatches{MeasuredBatch{2048, 2048}, MeasuredBatch{8192, 1024},
                                             MeasuredBatch{16384, 256}, MeasuredBatch{kLongestMeasuredContext, 128}};
inline constexpr std::int64_t kMostMeasuredGpus = 8;        ///< collectives
inline constexpr std::int64_t kSmallestAnsweredBlock = 32;  ///< real answers under evicted caches, tokens
inline constexpr std::int64_t kLargestAnsweredBlock = 128;

/// Whether rows measured on this very GPU chose the constants of its profile.
/// Example: h100-sxm yes; l40s, whose profile says "assumed: as rtx-pro-6000", no.
[[nodiscard]] bool is_measured(const gpu::GpuProfile& profile);

/// One sentence for each way in which the run extrapolates, of what it measures only; empty: it stays inside.
/// Example: int4 on an L40S with measure: [time] -> no kernel was measured on l40s; no measured kernel reads int4.
/// @param profile  of the run's GPU; null where the run asks for neither time nor serving
/// @param batches  whose decode step is timed, sequences
[[nodiscard]] std::vector<std::string> extrapolations(const Setting& setting, const gpu::GpuProfile* profile,
                                                      std::span<const std::int64_t> batches = {});

}  // namespace kvtide::experiment

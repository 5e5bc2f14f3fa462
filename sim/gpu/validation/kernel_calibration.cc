#include "gpu/validation/kernel_calibration.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "gpu/constant_rate_memory.h"
#include "gpu/decode_attention.h"
#include "gpu/validation/constant_fit.h"

namespace kvtide::gpu {
namespace {

constexpr double kUnusedRate = 1e17;  // transpose_rate of kernels that transpose nothing

using Constant = double AttentionKernel::*;

std::vector<Constant> free_constants(const AttentionKernel& kernel) {
  std::vector<Constant> constants;
  for (const Constant constant :
       {&AttentionKernel::fixed_time, &AttentionKernel::sequence_time, &AttentionKernel::task_time,
        &AttentionKernel::task_time_per_channel, &AttentionKernel::output_time, &AttentionKernel::empty_block_time,
        &AttentionKernel::regroup_time, &AttentionKernel::combine_time, &AttentionKernel::combine_output_time,
        &AttentionKernel::tensor_efficiency, &AttentionKernel::transpose_rate, &AttentionKernel::memory_share}) {
    const double value = kernel.*constant;
    if (constant == &AttentionKernel::memory_share && value == 1) continue;
    if (value > 0 && !(constant == &AttentionKernel::transpose_rate && value > kUnusedRate))
      constants.push_back(constant);
  }
  return constants;
}

class Residuals {
 public:
  Residuals(const std::vector<GpuProfile>& profiles, const std::vector<CalibrationRow>& rows)
      : profiles_(profiles), rows_(rows) {
    for (GpuProfile& profile : profiles_) profile.facts.clear();
    for (CalibrationRow& row : rows_) row.work.kernel.clear();
  }

  /// log(predicted / measured) of every row.
  [[nodiscard]] std::vector<double> operator()(const AttentionKernel& kernel) {
    for (GpuProfile& profile : profiles_) {
      profile.attention_kernels = {kernel.at_clock(profile.clock)};
      profile.attention_kernels.front().scope = {};
    }
    std::vector<double> errors(rows_.size());
    for (std::size_t index = 0; index < rows_.size(); ++index) {
      const CalibrationRow& row = rows_[index];
      const GpuProfile& profile = profiles_[row.profile];
      ConstantRateMemory memory(profile.bandwidth, profile.read_efficiency);
      const KernelTime time = time_decode_attention(profile, memory, row.work, L2State::warm);
      errors[index] = std::log(to_microseconds(time.duration) / row.microseconds);
    }
    return errors;
  }

 private:
  std::vector<GpuProfile> profiles_;
  std::vector<CalibrationRow> rows_;
};

}  // namespace

AttentionKernel calibrate_kernel(const AttentionKernel& start, const std::vector<GpuProfile>& profiles,
                                 const std::vector<CalibrationRow>& rows) {
  const std::vector<Constant> constants = free_constants(start);
  const auto kernel_of = [&](const std::vector<double>& values) {
    AttentionKernel kernel = start;
    for (std::size_t index = 0; index < constants.size(); ++index) kernel.*constants[index] = values[index];
    kernel.tensor_efficiency = std::min(kernel.tensor_efficiency, 1.0);
    kernel.memory_share = std::min(kernel.memory_share, 1.0);
    return kernel;
  };
  std::vector<double> values;
  for (const Constant constant : constants) values.push_back(start.*constant);
  Residuals residuals(profiles, rows);
  return kernel_of(
      fit_constants(values, [&](const std::vector<double>& tried) { return residuals(kernel_of(tried)); }));
}

}  // namespace kvtide::gpu

#include "gpu/validation/kernel_calibration.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <memory>

#include "gpu/constant_rate_memory.h"
#include "gpu/decode_attention.h"

namespace kvtide::gpu {
namespace {

constexpr double kLinearFrom = 0.05;  // of log(predicted / measured)
constexpr double kStep = 1e-3;        // of a logarithm, for the derivative
constexpr int kMaxRounds = 25;
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
  [[nodiscard]] Eigen::VectorXd operator()(const AttentionKernel& kernel) {
    for (GpuProfile& profile : profiles_) {
      profile.attention_kernels = {kernel.at_clock(profile.clock)};
      profile.attention_kernels.front().scope = {};
    }
    Eigen::VectorXd errors(static_cast<Eigen::Index>(rows_.size()));
    for (std::size_t index = 0; index < rows_.size(); ++index) {
      const CalibrationRow& row = rows_[index];
      const GpuProfile& profile = profiles_[row.profile];
      ConstantRateMemory memory(profile.bandwidth, profile.read_efficiency);
      const KernelTime time = time_decode_attention(profile, memory, row.work, L2State::warm);
      errors[static_cast<Eigen::Index>(index)] = std::log(to_microseconds(time.duration) / row.microseconds);
    }
    return errors;
  }

 private:
  std::vector<GpuProfile> profiles_;
  std::vector<CalibrationRow> rows_;
};

double cost(const Eigen::VectorXd& errors) {
  return ((1 + (errors.array() / kLinearFrom).square()).sqrt() - 1).sum();
}

}  // namespace

AttentionKernel calibrate_kernel(const AttentionKernel& start, const std::vector<GpuProfile>& profiles,
                                 const std::vector<CalibrationRow>& rows) {
  const std::vector<Constant> constants = free_constants(start);
  const auto moved = [&](const AttentionKernel& kernel, const Eigen::VectorXd& step) {
    AttentionKernel result = kernel;
    for (std::size_t index = 0; index < constants.size(); ++index) {
      result.*constants[index] *= std::exp(std::clamp(step[static_cast<Eigen::Index>(index)], -2.0, 2.0));
    }
    result.tensor_efficiency = std::min(result.tensor_efficiency, 1.0);
    result.memory_share = std::min(result.memory_share, 1.0);
    return result;
  };
  Residuals residuals(profiles, rows);
  const auto num_constants = static_cast<Eigen::Index>(constants.size());
  AttentionKernel best = start;
  Eigen::VectorXd errors = residuals(best);
  double best_cost = cost(errors);
  double damping = 1e-2;
  for (int round = 0; round < kMaxRounds && damping < 1e6; ++round) {
    Eigen::MatrixXd slopes(errors.size(), num_constants);
    for (Eigen::Index index = 0; index < num_constants; ++index) {
      Eigen::VectorXd step = Eigen::VectorXd::Zero(num_constants);
      step[index] = kStep;
      slopes.col(index) = (residuals(moved(best, step)) - errors) / kStep;
    }
    // Soft L1 as weighted least squares: an error e counts with weight 1 / sqrt(1 + (e / 0.05)^2).
    const Eigen::VectorXd weights = (1 + (errors.array() / kLinearFrom).square()).sqrt().inverse();
    const Eigen::MatrixXd normal = slopes.transpose() * weights.asDiagonal() * slopes;
    const Eigen::VectorXd gradient = slopes.transpose() * weights.asDiagonal() * errors;
    const double previous = best_cost;
    while (damping < 1e6) {
      Eigen::MatrixXd damped = normal;
      damped.diagonal() += damping * (normal.diagonal().array() + 1e-9).matrix();
      const AttentionKernel candidate = moved(best, damped.ldlt().solve(-gradient));
      const Eigen::VectorXd candidate_errors = residuals(candidate);
      const double candidate_cost = cost(candidate_errors);
      if (candidate_cost < best_cost) {
        best = candidate;
        errors = candidate_errors;
        best_cost = candidate_cost;
        damping = std::max(damping / 5, 1e-6);
        break;
      }
      damping *= 5;
    }
    if (previous - best_cost < 1e-4 * previous) break;
  }
  return best;
}

}  // namespace kvtide::gpu

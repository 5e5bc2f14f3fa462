#include "gpu/validation/constant_fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

namespace kvtide::gpu {
namespace {

constexpr double kLinearFrom = 0.05;  // of log(predicted / measured)
constexpr double kStep = 1e-3;        // of a logarithm, for the derivative
constexpr double kLargestStep = 2;    // of a logarithm, in one round
constexpr int kMaxRounds = 25;
constexpr double kMaxDamping = 1e6;

double cost(const Eigen::VectorXd& errors) {
  return ((1 + (errors.array() / kLinearFrom).square()).sqrt() - 1).sum();
}

std::vector<double> moved(const std::vector<double>& constants, const Eigen::VectorXd& step) {
  std::vector<double> result = constants;
  for (std::size_t index = 0; index < result.size(); ++index) {
    result[index] *= std::exp(std::clamp(step[static_cast<Eigen::Index>(index)], -kLargestStep, kLargestStep));
  }
  return result;
}

}  // namespace

std::vector<double> fit_constants(const std::vector<double>& start, const LogErrors& log_errors) {
  const auto evaluate = [&](const std::vector<double>& constants) {
    const std::vector<double> errors = log_errors(constants);
    return Eigen::VectorXd(Eigen::Map<const Eigen::VectorXd>(errors.data(), static_cast<Eigen::Index>(errors.size())));
  };
  const auto num_constants = static_cast<Eigen::Index>(start.size());
  std::vector<double> best = start;
  Eigen::VectorXd errors = evaluate(best);
  if (errors.size() == 0 || num_constants == 0) return start;
  double best_cost = cost(errors);
  double damping = 1e-2;
  for (int round = 0; round < kMaxRounds && damping < kMaxDamping; ++round) {
    Eigen::MatrixXd slopes(errors.size(), num_constants);
    for (Eigen::Index index = 0; index < num_constants; ++index) {
      Eigen::VectorXd step = Eigen::VectorXd::Zero(num_constants);
      step[index] = kStep;
      slopes.col(index) = (evaluate(moved(best, step)) - errors) / kStep;
    }
    // Soft L1 as weighted least squares: an error e counts with weight 1 / sqrt(1 + (e / 0.05)^2).
    const Eigen::VectorXd weights = (1 + (errors.array() / kLinearFrom).square()).sqrt().inverse();
    const Eigen::MatrixXd normal = slopes.transpose() * weights.asDiagonal() * slopes;
    const Eigen::VectorXd gradient = slopes.transpose() * weights.asDiagonal() * errors;
    const double previous = best_cost;
    while (damping < kMaxDamping) {
      Eigen::MatrixXd damped = normal;
      damped.diagonal() += damping * (normal.diagonal().array() + 1e-9).matrix();
      const std::vector<double> candidate = moved(best, damped.ldlt().solve(-gradient));
      const Eigen::VectorXd candidate_errors = evaluate(candidate);
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

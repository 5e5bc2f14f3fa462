#include "loss/eviction_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "loss/value_sums.h"

namespace kvtide::loss {
namespace {

/// An output of zero length has no relative error; below this the error is absolute (as in loss_meter.cc).
constexpr double kSmallestOutput = 1e-12;

/// Below this share of attention kept, 1 - m has lost too many digits: the row is summed over what stays. Sums are good
/// to about 1e-13, so that above it E is good to 1e-9.
constexpr double kSmallestKept = 1e-4;

/// Positions between two stored sums; finer costs memory, coarser time.
constexpr std::int64_t kFinestSpacing = 16;

}  // namespace

EvictionLoss::EvictionLoss(const HeadReference& reference, bool with_output_error)
    : reference_(reference), with_output_error_(with_output_error) {
  const std::int64_t positions = reference.num_positions();
  const std::int64_t rows = reference.num_rows();
  mass_sums_ = DoubleMatrix::Zero(positions + 1, rows);
  for (std::int64_t j = 0; j < positions; ++j) {
    mass_sums_.row(j + 1) = mass_sums_.row(j) + reference.weights.col(j).transpose();
  }
  lost_ = Eigen::RowVectorXd::Zero(rows);
  if (!with_output_error) return;

  lost_outputs_ = DoubleMatrix::Zero(rows, reference.v.cols());
  norms_ = reference.outputs.rowwise().norm().cwiseMax(kSmallestOutput);
  spacing_ = kFinestSpacing;
  const auto sum_bytes = static_cast<std::uint64_t>(lost_outputs_.size()) * sizeof(double);
  while (spacing_<positions&& static_cast<std::uint64_t>(positions / spacing_ + 1) * sum_bytes> kMaxSumBytes) {
    spacing_ *= 2;
  }
  output_sums_.resize(positions / spacing_ + 1, lost_outputs_.size());
  for (std::int64_t sum = 0; sum < output_sums_.rows(); ++sum) {
    if (sum > 0)
      add_value_sums(reference_.weights, reference_.v, (sum - 1) * spacing_, sum * spacing_, 1, lost_outputs_);
    output_sums_.row(sum) = lost_outputs_.reshaped<Eigen::RowMajor>().transpose();
  }
  lost_outputs_.setZero();
}

std::int64_t EvictionLoss::cost(std::int64_t begin, std::int64_t end) const {
  const std::int64_t first = (begin + spacing_ - 1) / spacing_ * spacing_;
  const std::int64_t last = end / spacing_ * spacing_;
  return first < last ? (first - begin) + 2 + (end - last) : end - begin;
}

void EvictionLoss::add_outputs(std::int64_t begin, std::int64_t end, double sign) {
  const std::int64_t first = (begin + spacing_ - 1) / spacing_;
  const std::int64_t last = end / spacing_;
  if (first >= last) {
    add_value_sums(reference_.weights, reference_.v, begin, end, sign, lost_outputs_);
    return;
  }
  add_value_sums(reference_.weights, reference_.v, begin, first * spacing_, sign, lost_outputs_);
  lost_outputs_.reshaped<Eigen::RowMajor>().transpose() += sign * (output_sums_.row(last) - output_sums_.row(first));
  add_value_sums(reference_.weights, reference_.v, last * spacing_, end, sign, lost_outputs_);
}

void EvictionLoss::evict(const kv::PositionRuns& runs) {
  KVTIDE_ASSERT(runs.empty() || (runs.front().begin >= 0 && runs.back().end <= reference_.num_positions()),
                "evicted positions lie within the reference");
  lost_.setZero();
  std::int64_t cost_anew = 0;
  for (const kv::PositionRun& run : runs) {
    lost_ += mass_sums_.row(run.end) - mass_sums_.row(run.begin);
    if (with_output_error_) cost_anew += cost(run.begin, run.end);
  }
  if (with_output_error_) {
    std::int64_t cost_of_change = 0;
    kv::for_each_difference(evicted_, runs, [&](std::int64_t begin, std::int64_t end, bool /*is_added*/) {
      cost_of_change += cost(begin, end);
    });
    if (cost_anew <= cost_of_change) {
      lost_outputs_.setZero();
      for (const kv::PositionRun& run : runs) add_outputs(run.begin, run.end, 1);
    } else {
      kv::for_each_difference(evicted_, runs, [&](std::int64_t begin, std::int64_t end, bool is_added) {
        add_outputs(begin, end, is_added ? 1 : -1);
      });
    }
  }
  evicted_ = runs;
}

double EvictionLoss::lost_mass() const {
  return lost_.sum() / static_cast<double>(lost_.size());
}

/// |o_i - ohat_i| with ohat_i summed over the kept positions.
double EvictionLoss::error_of_kept(std::int64_t row) const {
  double mass = 0;
  Eigen::RowVectorXd output = Eigen::RowVectorXd::Zero(reference_.v.cols());
  std::int64_t next = 0;
  const auto add = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; ++j) {
      const double weight = reference_.weights(row, j);
      mass += weight;
      output += weight * reference_.v.row(j).cast<double>();
    }
  };
  for (const kv::PositionRun& run : evicted_) {
    add(next, run.begin);
    next = run.end;
  }
  add(next, reference_.num_positions());
  if (mass > 0) output /= mass;
  return (reference_.outputs.row(row) - output).norm();
}

double EvictionLoss::output_error() const {
  if (!with_output_error_) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (std::int64_t row = 0; row < lost_.size(); ++row) {
    const double kept = 1 - lost_(row);
    const double error = kept < kSmallestKept
                             ? error_of_kept(row)
                             : (lost_outputs_.row(row) - lost_(row) * reference_.outputs.row(row)).norm() / kept;
    sum += error / norms_(row);
  }
  return sum / static_cast<double>(lost_.size());
}

std::vector<EvictionLoss> eviction_losses(const AttentionReference& reference, bool with_output_error) {
  std::vector<EvictionLoss> heads;
  heads.reserve(static_cast<std::size_t>(reference.num_heads()));
  for (const auto& layer : reference.layers()) {
    for (const HeadReference& head : layer) heads.emplace_back(head, with_output_error);
  }
  return heads;
}

}  // namespace kvtide::loss

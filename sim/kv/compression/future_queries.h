#pragma once
// What scorers assume of queries to come: the queries so far before RoPE, turned by the mean rotation of the next
// `count` positions (expected attention, arXiv 2510.00636).
//
// Example: one pair that turns by 1 radian a position, 2 positions from 0 on: the mean rotation is
// ((1 + cos 1)/2, (0 + sin 1)/2) = (0.770, 0.421): shorter than 1, the more so the faster the pair turns.

#include <Eigen/Core>
#include <functional>

#include "kv/head_tensors.h"

namespace kvtide::kv {

/// A rotation averaged over positions: pair (i, i + head_dim / 2) turns by its own angle and shrinks.
struct MeanRotation {
  Eigen::VectorXd cosine;  ///< [pair] mean cosine of the angles
  Eigen::VectorXd sine;    ///< [pair]
  [[nodiscard]] Eigen::VectorXf of_vector(const Eigen::VectorXf& channels) const;
  /// R S R' of a covariance S.
  [[nodiscard]] Eigen::MatrixXd of_covariance(const Eigen::MatrixXd& spread) const;
};

/// Mean over positions first..first+count-1.
[[nodiscard]] MeanRotation mean_rotation(const Rope& rope, std::int64_t head_dim, std::int64_t first,
                                         std::int64_t count);

/// Shows the group's queries at positions first..end-1 before RoPE, [query, head_dim], one query head after another.
/// @throws InputError when the trace lacks one of them
void visit_queries_before_rope(const HeadTensors& head, std::int64_t first, std::int64_t end, const char* scorer,
                               const std::function<void(const Eigen::Ref<const RowMatrix>&)>& visit);

}  // namespace kvtide::kv

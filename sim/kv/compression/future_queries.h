#pragma once
// What scorers assume of queries to come: the queries so far before RoPE, turned by the mean rotation of the next
// `count` positions (expected attention, arXiv 2510.00636).
//
// Example: one pair that turns by 1 radian a position, 2 positions from 0 on: the mean rotation is
// ((1 + cos 1)/2, (0 + sin 1)/2) = (0.770, 0.421): shorter than 1, the more so the faster the pair turns.

#include <Eigen/Core>

#include "kv/head_tensors.h"

namespace kvtide::kv {

/// Mean over positions first..first+count-1 of the rotation, as a matrix that multiplies a column of channels.
[[nodiscard]] Eigen::MatrixXf mean_rotation(const Rope& rope, std::int64_t head_dim, std::int64_t first,
                                            std::int64_t count);

/// The group's queries at positions first..end-1 before RoPE, one [query, head_dim] block a query head.
/// @throws InputError when the trace lacks one of them
[[nodiscard]] std::vector<RowMatrix> queries_before_rope(const HeadTensors& head, std::int64_t first, std::int64_t end,
                                                         const char* scorer);

}  // namespace kvtide::kv

#pragma once
// Which of a few hundred centroids is nearest to each of many short vectors, sixteen centroids at a time.
//
// |x - c|^2 less |x|^2, which is the same for all centroids: |c|^2 - 2 x.c, every product and sum rounded once in float32, in
// the order of the channels, on every processor. Example: x = 3 between 1 and 4: 1 - 6 = -5 and 16 - 24 = -8: the second.

#include <cstdint>
#include <vector>

#include "kv/head_tensors.h"

namespace kvtide::kv {

/// [row] the nearest centroid; of equally near ones the first.
/// @param rows, centroids  of as many channels
[[nodiscard]] std::vector<std::int64_t> nearest_centroids(const RowMatrix& rows, const RowMatrix& centroids);

}  // namespace kvtide::kv

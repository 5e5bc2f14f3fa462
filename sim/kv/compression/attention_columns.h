#pragma once
// What positions receive from recorded queries: column sums of the causal softmax. The part that attention scorers
// share, in float32 with float64 accumulation over queries.
//
// Example: three positions with equal logits, queries 0..2: the rows are (1), (1/2, 1/2), (1/3, 1/3, 1/3), so the sums
// are 11/6, 5/6, 1/3.

#include <span>
#include <vector>

#include "kv/compression/matrix_tiles.h"
#include "kv/head_tensors.h"

namespace kvtide::kv {

/// Rows of the recorded queries first..end-1 (absolute positions) in HeadTensors::q_positions.
struct QueryRows {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t size() const { return end - begin; }
};

/// @throws InputError naming `scorer` and the queries it misses
[[nodiscard]] QueryRows query_rows(const HeadTensors& head, std::int64_t first, std::int64_t end, const char* scorer);

/// Softmax mass of positions 0..num_keys-1, summed over the query heads of the group and over `rows`, each query's row
/// times its weight. A query at position p sees 0..p.
/// @param weights  [rows.size()], or empty: all 1
/// @return [position]
[[nodiscard]] std::vector<double> attention_columns(const HeadTensors& head, QueryRows rows, std::int64_t num_keys,
                                                    std::span<const double> weights = {});

}  // namespace kvtide::kv

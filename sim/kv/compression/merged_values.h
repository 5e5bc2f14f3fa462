#pragma once
// Values of evicted positions folded into the kept one with the most similar key (kvpress MergingPress): weight = cosine
// (not below 0) * |v evicted| / (|v evicted| + |v kept|); the kept value becomes the weighted mean with its own weight 1.
//
// Example: kept v = 2, evicted v = 2 with cosine 1: weight 2 / (2 + 2) = 1/2, (2 + 1/2 * 2) / (1 + 1/2) = 2.

#include "kv/head_tensors.h"

namespace kvtide::kv {

struct MergeRule {
  double similarity_threshold = 0;  ///< evicted positions whose best cosine is lower are dropped
  double merge_fraction = 1;        ///< share of the evicted, the most similar ones, that is folded in at all
};

/// The kept position whose key is most like an evicted one's.
struct NearestKept {
  std::vector<std::int64_t> evicted;  ///< positions, ascending
  std::vector<std::int64_t> target;   ///< index into `kept`; on a tie the earlier
  std::vector<double> likeness;       ///< cosine of the two keys
};

/// @param kept  positions that stay, ascending, at least one
[[nodiscard]] NearestKept nearest_kept(const HeadTensors& head, std::int64_t num_positions,
                                       const std::vector<std::int64_t>& kept);

/// @param kept  positions that stay, ascending
/// @return [kept position, head_dim]
[[nodiscard]] RowMatrix merged_values(const HeadTensors& head, std::int64_t num_positions,
                                      const std::vector<std::int64_t>& kept, const MergeRule& rule);

}  // namespace kvtide::kv

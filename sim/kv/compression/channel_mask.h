#pragma once
// Key channels that can be dropped (ThinK, arXiv 2407.21018): a channel counts for mean q^2 over the last `window`
// queries, mean over the group, times mean k^2 over all positions.
//
// Example: two channels, q^2 = 1, 4 and k^2 = 9, 1: 9 against 4, the first stays.

#include "kv/head_tensors.h"

namespace kvtide::kv {

/// @param num_kept  channels that stay; on a tie the earlier
/// @return [channel] true: kept
/// @throws InputError when the trace lacks one of the window's queries
[[nodiscard]] std::vector<bool> kept_channels(const HeadTensors& head, std::int64_t num_positions, std::int64_t window,
                                              std::int64_t num_kept);

}  // namespace kvtide::kv

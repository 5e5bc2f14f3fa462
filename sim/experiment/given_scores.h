#pragma once
// Choices of any program, for `evict: {scorer: file, kept: FILE.h5, method: NAME}`: a file laid out like a kvpress
// reference. Root attributes `layers` (recorded model layers) and `ratios` (share REMOVED); per method a group with
// kept [layer, ratio, kv_head, token] (1: kept) or scores [layer, kv_head, token] (the higher is kept), or both.

#include <vector>

#include "attention/trace.h"
#include "kv/compression/compression.h"

namespace kvtide::experiment {

/// Scores of the trace's layers that make the stage choose what the file says: 1 and 0 where the file holds kept
/// positions at the stage's keep ratio, else the file's own scores.
/// @return [recorded layer][kv_head][position]
/// @throws InputError  naming the file and the dataset that is missing or has another shape than the trace
[[nodiscard]] std::vector<kv::LayerScores> read_given_scores(const kv::Evict& stage, const attention::TraceInfo& info,
                                                             std::int64_t num_positions);

}  // namespace kvtide::experiment

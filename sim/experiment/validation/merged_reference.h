#pragma once
// Values that a merging method stored for single heads, under datasets named by layer and share removed:
// kept_layer18_ratio0.5 [kv_head, token], positions_layer18_ratio0.5_head0 [kept], values_... [kept, head_dim].

#include "experiment/validation/kept_report.h"
#include "kv/compression/merged_values.h"

namespace kvtide::experiment {

/// Compares kept positions and merged values with what the file stores of this layer and ratio; leaves the row's figures
/// as they are where it stores nothing. @param kept  ours, [kv_head][position]
void compare_merged(const std::string& path, const std::string& method, std::int64_t layer, double removed,
                    const std::vector<std::vector<std::uint8_t>>& kept, const kv::LayerTensors& tensors,
                    const kv::MergeRule& rule, KeptRow& row);

}  // namespace kvtide::experiment

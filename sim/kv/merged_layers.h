#pragma once
// What is read back of layers that are stored as one (MiniCache, arXiv 2405.14366): of every position and KV head one
// direction for all layers of the group, halfway between their own, and each layer's own length; K and V alike. Positions whose
// layers are least alike are kept as they are.
//
// Example: keys (2, 0) and (0, 6) of two layers: direction (1, 1) / sqrt 2, read back as (1.41, 1.41) and (4.24, 4.24).

#include <vector>

#include "kv/compression/compression.h"

namespace kvtide::kv {

/// The group's layers as they are read back. Directions and lengths are stored in fp16. A position's likeness is the
/// cosine of K plus that of V, each the smallest to the group's direction; a head keeps ceil(retained * num_positions) of the least.
/// @param group  two layers or more of equal shape  @param num_positions  later ones stay
[[nodiscard]] std::vector<LayerTensors> merged_layers(const std::vector<const LayerTensors*>& group,
                                                      std::int64_t num_positions, PartsPerMillion retained);

}  // namespace kvtide::kv

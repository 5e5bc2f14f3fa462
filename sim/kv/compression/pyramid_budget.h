#pragma once
// A budget that falls linearly from the first layer to the last (PyramidKV, arXiv 2406.02069): smallest = kept / beta,
// largest = 2 kept - smallest, both bounded by what there is beside the window; uniform when the smallest would be less
// than the window, and where there is one layer (whose share is the whole).
//
// Example: 2,048 positions, window 64, beta 20, 30 layers, keep 0.5: the largest would be 1,996.8 of 1,984, so layer 0
// keeps 1,984 and layer 29 2 * 1,024 - 1,984 = 64. Keep 0.25: smallest 25.6, below the window: every layer keeps 512.

#include "kv/compression/compression.h"

namespace kvtide::kv {

struct PyramidRule {
  std::int64_t window = 64;
  double beta = 20;
};

/// @param num_positions  >= 1  @param layer  0..num_layers-1  @return positions, 1..num_positions, that the layer keeps
[[nodiscard]] std::int64_t pyramid_count(const PyramidRule& rule, std::int64_t num_positions, PartsPerMillion keep,
                                         std::int64_t layer, std::int64_t num_layers);

}  // namespace kvtide::kv

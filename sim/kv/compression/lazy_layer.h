#pragma once
// Layers that look only at the sinks and the newest positions (SimLayerKV, arXiv 2410.13846): their cache can stream.

#include "kv/head_tensors.h"

namespace kvtide::kv {

struct LazyRule {
  std::int64_t sinks = 4;
  std::int64_t newest = 1024;
  std::int64_t queries = 1;  ///< newest queries that are watched, and excluded from what they look at
};

/// Attention of the newest queries on sinks and newest positions, mean over queries and all heads of the layer.
/// @throws InputError when the trace lacks the queries
[[nodiscard]] double lazy_share(const LayerTensors& layer, std::int64_t num_positions, const LazyRule& rule);

}  // namespace kvtide::kv

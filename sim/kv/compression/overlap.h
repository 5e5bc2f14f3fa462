#pragma once
// Windows that overlap: which of two windows a position is read from, and what the other copy costs.
//
// Stages work on whole windows. Afterwards every position is read once: from a protected window that holds it, else from
// the surviving window in which it lies further from an edge (quantized_halo: from its own stride, else from the 4-bit halo
// of the window before). The copies that are stored and not read are HeadCache::copies.
//
// Example: windows 0..127 and 96..223 both kept, evict only. Positions 96..127 are in both; with `duplicate` 32 copies
// are stored beside the 224 positions read (256 = 2 whole windows), with `union` none.

#include "kv/compression/working_layer.h"

namespace kvtide::kv {

/// True when blocks are scored by more than they hold (score_only).
[[nodiscard]] bool scores_span_halo(const Compression& setting);

/// Position scores whose sum over a block is the sum over the block and half a halo on either side (score_only):
/// a position near an edge gets its mirror image's score besides its own. Other settings: unchanged.
[[nodiscard]] LayerScores scores_with_halo(const Compression& setting, std::int64_t num_positions,
                                           const LayerScores& scores);

/// Makes the blocks of a head disjoint. @return the copies
[[nodiscard]] std::vector<Segment> resolve_overlap(const Compression& setting, std::int64_t head_dim,
                                                   WorkingHead& head);

/// Bytes of scale and zero point of one 4-bit row of K or V in a halo. head_dim 128: 4 + 32/128 = 4.25 bits an element.
inline constexpr Bytes kHaloRowMetadata = 4;

}  // namespace kvtide::kv

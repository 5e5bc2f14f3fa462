#pragma once
// What the machine computes and moves to compress what one appended token completed: every stage of the stack by its own
// formula, as work of one layer.

#include <cstdint>

#include "gpu/kernel_work.h"
#include "kv/cache_timeline.h"

namespace kvtide::kv {

/// Over all sequences and KV heads of one layer; nothing to do: num_blocks 0.
/// Example: pools of 4, one head of 128 channels, a block of 128 complete: 32,768 elements of K and V read and added, 8,192 written.
/// @param num_positions  in the cache now
/// @param batch          sequences, each of which has the event
/// @param num_blocks     of a sequence that `event` compresses (CacheTimeline::compressed_blocks)
[[nodiscard]] gpu::CompressBlocksWork compression_work(const CacheTimeline::Geometry& geometry, const CacheEvent& event,
                                                       std::int64_t num_positions, std::int64_t num_blocks,
                                                       std::int64_t batch);

}  // namespace kvtide::kv

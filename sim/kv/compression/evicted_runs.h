#pragma once
// What a setting that only evicts takes from each head, decided without making a cache: scans that ask the same layer
// again and again (every grid offset, every keep ratio) need nothing else.

#include <vector>

#include "kv/compression/compression.h"
#include "kv/position_runs.h"

namespace kvtide::kv {

/// True when every stage evicts and changes no entry that stays: what stays is stored exactly as recorded. True for an empty stack.
[[nodiscard]] bool only_evicts(const Compression& setting);

/// The positions that compress_layer() would evict, the very same ones, ties and roundings included.
/// One stage costs one pass over the scores; longer stacks go through compress_layer().
/// @param setting  every stage evicts; what becomes of the rest changes nothing here
/// @param scores   [kv_head][position >= num_positions]
/// @return [kv_head]
/// @throws InputError  contradictions(), with the first sentence
[[nodiscard]] std::vector<PositionRuns> evicted_runs(const Compression& setting, std::int64_t num_positions,
                                                     const LayerScores& scores);

/// The same with partition_blocks(setting, num_positions) at hand.
[[nodiscard]] std::vector<PositionRuns> evicted_runs(const Compression& setting, const std::vector<Block>& blocks,
                                                     std::int64_t num_positions, const LayerScores& scores);

}  // namespace kvtide::kv

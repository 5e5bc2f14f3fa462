#pragma once
// The recorded fact itself, moved through its text while the block grid stays: what comes between closes up or makes room by
// the fact's length. Exact on the recorded queries and keys: a key before RoPE is turned at its new position, scores and
// choices are made again. (What the model would have computed for the moved text, a trace cannot know.)
//
// Example: a fact at 300..315 moved to 100: positions 0..99 stay, 100..115 are the fact, what was at 100..299 stands at
// 116..315, the rest stays.

#include <cstdint>
#include <functional>
#include <vector>

#include "kv/compression/compression.h"
#include "kv/position_runs.h"
#include "loss/attention_reference.h"

namespace kvtide::loss {

struct MovedFact {
  std::int64_t begin = 0;  ///< first token where it was recorded
  std::int64_t length = 1;
  std::vector<std::int64_t> needed;       ///< its tokens that the answer needs, as offsets from begin
  MeasureQueries scoring;                 ///< queries that feed the policy's scores
  MeasureQueries measured;                ///< queries that read the fact
  std::vector<std::int64_t> cell_begins;  ///< ascending, from 0: positions between two are never told apart
  std::int64_t num_positions = 0;         ///< compressed positions
  std::int64_t step = 1;
};

struct MovedFactScan {
  std::vector<std::int64_t> position;  ///< where the fact begins
  std::vector<double> success;  ///< [position] least kept share of the attention on a needed token, by its readers
  std::vector<double> margin;   ///< [position] success - 1/2
  std::vector<double> mass;     ///< [position] attention on the needed tokens that is kept, mean over heads and queries
  std::vector<double> bits;     ///< [position] bits lost per stored element of the needed tokens
};

/// @param layers  recorded, with k_pre
/// @param evict   what the policy takes, given position scores (all of a cell's score on its first position)
/// @throws InputError  the fact or its scoring queries leave no room to move
[[nodiscard]] MovedFactScan scan_moved_fact(
    const std::vector<kv::LayerTensors>& layers, const MovedFact& fact,
    const std::function<std::vector<kv::PositionRuns>(const kv::LayerScores&)>& evict);

}  // namespace kvtide::loss

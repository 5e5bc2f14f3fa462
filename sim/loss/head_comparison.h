#pragma once
// One head's compressed cache against its reference, in the stable form that needs no second softmax:
// phat_ie / Z_i = exp(shat_ie - ln Z_i), where ln Z_i is the full cache's. Keys that the policy left alone then carry
// exactly their old weight a_ij, and only what changed is computed anew.
//
// Example: two keys of equal score, one evicted. a = (1/2, 1/2); the kept key still has p / Z = 1/2, so the mass ratio
// is S = 1/2 and its new weight (1/2) / S = 1.

#include <cstdint>
#include <vector>

#include "kv/head_cache.h"
#include "loss/attention_reference.h"

namespace kvtide::loss {

enum class PositionState : std::uint8_t {
  untouched,  ///< an entry of its own, bias 0, K and V bitwise equal to the trace
  changed,    ///< held, but pooled with others or read back with an error
  evicted,    ///< held by no entry
};

/// A stored entry that differs from the trace.
struct ChangedEntry {
  std::int32_t entry = 0;             ///< row of EntryTable
  bool same_key = false;              ///< one member, bias 0, key bitwise equal: only the value changed
  std::vector<std::int32_t> members;  ///< positions it stands for, ascending
};

/// What became of each position.
struct TouchedPositions {
  std::vector<PositionState> state;             ///< [position]
  std::vector<std::int32_t> evicted;            ///< positions, ascending
  std::vector<std::int32_t> changed_positions;  ///< ascending
  bool has_pools = false;                       ///< a changed entry stands for several positions
};

struct HeadComparison : TouchedPositions {
  std::vector<ChangedEntry> changed;  ///< ascending by first member
  std::int64_t first_touched = 0;     ///< first position not untouched; num_positions when there is none
  DoubleMatrix entry_weights;  ///< [row, changed entry] phat / Z; 0 where the entry is not yet formed for the row
  Eigen::VectorXd mass_ratio;  ///< [row] S_i = sum over entries of phat / Z; exactly 1 where nothing visible changed
  DoubleMatrix outputs;        ///< [row, head_dim] ohat_i; empty unless asked for; 0 where S_i = 0

  [[nodiscard]] bool identical() const { return changed.empty() && evicted.empty(); }
};

/// A query inside the members of a pool precedes the pool: it sees the members it can see exactly as in the full cache.
[[nodiscard]] inline bool is_formed(const ChangedEntry& entry, std::int64_t query_position) {
  return entry.members.back() <= query_position;
}

/// @param table  over the reference's positions
[[nodiscard]] TouchedPositions touched_positions(const HeadReference& reference, const kv::EntryTable& table);

/// @param cache         with `entries`; its positions are the reference's
/// @param with_outputs  also computes ohat (the dearer part)
[[nodiscard]] HeadComparison compare_head(const HeadReference& reference, const kv::HeadCache& cache,
                                          bool with_outputs);

}  // namespace kvtide::loss

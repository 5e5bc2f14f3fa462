#pragma once
// Where within a block the loss jumps. Score-driven block eviction leaves a flat mean profile (which blocks go is irregular)
// although every one of its jumps is at a block's first position: folded jumps show the grid, the folded level does not.
//
// Example: one head, losses 0 0 1 1 0 0 0 0 with blocks of 2: jumps of 1 at positions 2 and 4, both at phase 0: shares (1, 0).

#include <cstdint>
#include <vector>

namespace kvtide::loss {

/// Share of the summed |M_j - M_(j-1)| that falls on each phase (j + grid_offset) mod period.
/// @param profiles  [profile][position]
/// @param period    >= 1
/// @return [phase], summing to 1; all 0 when nothing jumps
[[nodiscard]] std::vector<double> fold_jumps(const std::vector<std::vector<double>>& profiles, std::int64_t period,
                                             std::int64_t grid_offset);

}  // namespace kvtide::loss

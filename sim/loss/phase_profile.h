#pragma once
// A profile folded onto one period: what a position's place within its block does to its loss.
//
// Phase of position p is (p + grid_offset) mod period, so that phase 0 is the first position of a block
// (block of p is (p + grid_offset) / period).
// Example: period 4, grid_offset 1: positions 3, 7, 11 begin blocks; position 5 has phase 2, position 6 phase 3.

#include <cstdint>
#include <span>
#include <vector>

namespace kvtide::loss {

struct PhaseProfile {
  std::vector<double> mean;         ///< [bin] mean loss; NaN where no position falls
  std::vector<std::int64_t> count;  ///< [bin] positions
};

/// @param period   >= 1
/// @param bins     1..period; bin of a phase is floor(phase * bins / period)
/// @param is_masked  [position] left out where 1; empty: none
[[nodiscard]] PhaseProfile fold_by_phase(std::span<const double> loss, std::int64_t period, std::int64_t grid_offset,
                                         std::int64_t bins, std::span<const std::uint8_t> is_masked = {});

}  // namespace kvtide::loss

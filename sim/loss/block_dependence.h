#pragma once
// Does the loss depend on WHICH block a fact falls in, not on where in the block? So it is when a fact moves through a fixed text under
// query-agnostic eviction: the dropped blocks are always the same. The profile then is level within blocks and steps at their boundaries: no
// period, but a grid.
//
// Squared steps between neighbouring places crowd on the grid (edge index, edge_grid.h); how crowded is crowded is learnt from permuting them,
// searched over powers of two alike. The means of the blocks must explain most of the variance.
//
// Example: loss 0 at places 256..311, 10 at 312..375, 0 at 376..503, 10 at 504..567: all steps at 56 mod 64.

#include <cstdint>
#include <limits>
#include <vector>

#include "loss/outside_scan.h"

namespace kvtide::loss {

struct BlockDependence {
  double block_size = std::numeric_limits<double>::quiet_NaN();  ///< best candidate; NaN: none to try
  double boundary = 0;  ///< first place of a block, mod block_size, to the scan's step
  double edge_index = 0;
  double p = 1;               ///< after the search; resolution 1 / 1,000
  double variance_share = 0;  ///< explained by the number of the block
  struct Block {
    double begin = 0;  ///< place
    double mean_success = 0;
    double mean_loss = 0;
    std::int64_t places = 0;
  };
  std::vector<Block> blocks;  ///< ascending
  /// p <= 0.02, edge index >= 0.75 and four fifths of the variance.
  [[nodiscard]] bool is_found() const { return p <= 0.02 && edge_index >= 0.75 && variance_share >= 0.8; }
};

[[nodiscard]] BlockDependence find_block_dependence(const OutsideScan& scan, std::uint64_t seed);

}  // namespace kvtide::loss

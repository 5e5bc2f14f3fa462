#pragma once
// RMS norm of the residual stream, with the residual added first: x and the residual in, their sum and the norm out, 16 bit.
//
// Example: 1 row of 4096: 2 x 8192 B read (and 8192 B of weights, from L2), 2 x 8192 B written; 5 FLOP an element (add,
// square and sum, scale twice).

#include <cstdint>

#include "gpu/kernel_work.h"

namespace kvtide::gpu {

struct NormalizeShape {
  std::int64_t num_rows = 0;  ///< tokens, or tokens x heads for a norm of q and k
  std::int64_t row_size = 4096;
  bool adds_residual = true;
};

/// The rows were just written by the kernel before and are read from L2 as far as they fit.
/// @throws InputError  counts out of range
[[nodiscard]] StreamWork normalize_work(const NormalizeShape& shape);

}  // namespace kvtide::gpu

#pragma once
// Rotary position encoding of q and k in place: each pair of channels is turned by the angle of its position.
//
// Example: 1 token, 32 query and 8 KV heads of 128 channels, 16 bit: 40 x 128 x 2 = 10,240 B read and as many written; six
// FLOP a pair of channels (four products, two sums) = 3 a channel.

#include <cstdint>

#include "gpu/kernel_work.h"

namespace kvtide::gpu {

struct RotateShape {
  std::int64_t num_tokens = 0;
  std::int64_t heads = 32;  ///< query heads and KV heads together
  std::int64_t head_dim = 128;
};

/// The qkv product has just written q and k, so they are read from L2 as far as they fit.
/// @throws InputError  counts out of range
[[nodiscard]] StreamWork rotate_work(const RotateShape& shape);

}  // namespace kvtide::gpu

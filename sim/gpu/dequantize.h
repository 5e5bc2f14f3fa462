#pragma once
// A quantized cache turned back to 16 bit in a kernel of its own, where the attention kernel cannot read the codes.
//
// Example: 1024 entries x 8 KV heads x 128 channels x (K, V) = 2,097,152 elements of int4, groups of 32 with 32 bits of
// scale and zero: 1,048,576 + 262,144 B read, 4,194,304 B written; 2 lane operations an element (shift and mask, then
// multiply-add by scale and zero) = 4 FLOP.

#include <cstdint>

#include "gpu/kernel_work.h"

namespace kvtide::gpu {

struct DequantizeShape {
  std::int64_t num_elements = 0;
  std::int64_t bits = 4;         ///< of a code, 1..16
  std::int64_t group_size = 32;  ///< elements that share scale and zero
  std::int64_t group_bits = 32;  ///< of scale and zero together
  Bytes chunk_bytes = 4096;      ///< contiguous codes of one page
};

/// @throws InputError  counts out of range
[[nodiscard]] StreamWork dequantize_work(const DequantizeShape& shape);

}  // namespace kvtide::gpu

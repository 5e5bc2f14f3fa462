#pragma once
// Low rank per block: the block's K (and V) matrix [entry, head_dim] is replaced by its best approximation of the given
// rank (Eckart-Young), stored as coefficients [entry, rank] and a basis [rank, head_dim], both fp16.
//
// Example: block of 128 entries, head_dim 128, rank 32: 128*32 + 32*128 = 8,192 of 16,384 elements, half of the bytes.

#include "kv/compression/working_layer.h"

namespace kvtide::kv {

void apply(const LowRank& stage, WorkingLayer& layer);

}  // namespace kvtide::kv

#pragma once
// Low rank: K and V rows are replaced by their best approximation of a given rank (Eckart-Young), stored as coefficients
// [entry, rank] and a basis [rank, head_dim], both fp16.
//   scope block     a basis for every block
//   scope sequence  one for all blocks of a sequence, stored once with it (ShadowKV, arXiv 2410.21465; xKV, 2503.18893)
//   scope model     one for all sequences, part of the weights and not charged (Palu, 2407.21118). Found here on the very
//                   rows it stores, which flatters the method.
// heads > 1: rows of several heads are one long row; each head stores its equal part of the common coefficients, and
// rebuilding a row reads them all. A trace with fewer heads joins those it has.
//
// Example: block of 128 entries, head_dim 128, rank 32: 128*32 + 32*128 = 8,192 of 16,384 elements, half of the bytes.
// Over 2,048 positions with one basis a sequence: 2048*32 + 32*128 of 2048*128: 25.2 % of the bytes.

#include "kv/compression/working_layer.h"

namespace kvtide::kv {

void apply(const LowRank& stage, WorkingLayer& layer);

}  // namespace kvtide::kv

#pragma once
// Mean pooling: every `width` surviving entries of a block become one, with the mean key and value of their positions.
// rope post: rotated keys are averaged, a low-pass filter with nulls where width is a multiple of a wavelength (Prism,
// 2602.08426). rope pre: keys are averaged before rotation and turned to the group's centre (mean position).
// weight cosine: a position weighs (1 + cos(its key, the mean key)) / 2 instead of 1.
// mass_correct: the entry's logit gets +ln(members), so that a pool of w equal keys keeps w shares of attention
// (KeepKV, 2504.09936).
//
// Example: 64 positions in a block, width 4 -> 16 entries, a quarter of the bytes.

#include "kv/compression/working_layer.h"

namespace kvtide::kv {

void apply(const Pool& stage, WorkingLayer& layer);

}  // namespace kvtide::kv

#pragma once
// The quantize stage: each free block's rows stored by a codec (codec.h), K and V each by their own.
// residual R: the newest positions stay fp16; keys are flushed together (n mod R stay), values one by one (the last R stay).
// residual_start: see Quantize; a prompt of 200 with R = 128: KIVI leaves 72 keys and 128 values in fp16, Hugging Face none.
// k_rope pre: keys are stored before rotation and turned to their positions as they are read (KVQuant, SKVQ).

#include "kv/compression/working_layer.h"

namespace kvtide::kv {

void apply(const Quantize& stage, WorkingLayer& layer);

}  // namespace kvtide::kv

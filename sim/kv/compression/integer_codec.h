#pragma once
// Integers in groups. Asymmetric: code = round((x - zero) / scale), scale = (max - min) / (2^bits - 1), zero = min; a group
// stores scale and zero in fp16. Symmetric: code = round(x / scale), scale = max|x| / (2^(bits-1) - 1); a group stores its
// scale only. Example: groups of 32 cost 4 + 32/32 = 5 bits an element as asymmetric int4, 8 + 16/32 = 8.5 as symmetric int8.
// Axis `channel`: a group is `group` consecutive entries of one channel (KIVI keys, arXiv 2402.02750); axis `token`: `group`
// consecutive channels of one entry (KIVI values). A block's last group may be shorter along the tokens.
// residual R: the newest positions stay fp16; keys are flushed together (n mod R stay), values one by one (the last R stay).

#include "kv/compression/working_layer.h"

namespace kvtide::kv {

void apply(const Quantize& stage, WorkingLayer& layer);

/// Encodes and decodes the leading `num_rows` rows in place.
void quantize_rows(RowMatrix& values, std::int64_t num_rows, const Quantize& stage, GroupAxis axis);

/// Bytes of the scales and zero points of a [num_rows, columns] matrix; a group cut short costs as much as a whole one.
[[nodiscard]] Bytes group_metadata_bytes(std::int64_t num_rows, std::int64_t columns, const Quantize& stage,
                                         GroupAxis axis);

/// Stored bits of one element, metadata of whole groups included.
[[nodiscard]] double effective_bits(std::int32_t bits, std::int64_t group, bool is_symmetric);

}  // namespace kvtide::kv

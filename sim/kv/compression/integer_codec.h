#pragma once
// Asymmetric min/max integers in groups: code = round((x - zero) / scale), scale = (max - min) / (2^bits - 1), zero =
// min. Each group stores scale and zero in fp16, so int4 with groups of 32 costs 4 + 32/32 = 5 bits an element. Axis
// `channel`: a group is `group` consecutive entries of one channel (KIVI keys, arXiv 2402.02750); axis `token`: `group`
// consecutive channels of one entry (KIVI values). A block's last group may be shorter along the tokens.
// residual R: the newest positions stay fp16; keys are flushed together (n mod R stay), values one by one (the last R
// stay).

#include "kv/compression/working_layer.h"

namespace kvtide::kv {

void apply(const Quantize& stage, WorkingLayer& layer);

/// Encodes and decodes the leading `num_rows` rows in place.
/// @return bytes of scales and zero points
Bytes quantize_rows(RowMatrix& values, std::int64_t num_rows, std::int32_t bits, std::int64_t group, GroupAxis axis);

/// The same bytes without numbers: groups of a [num_rows, columns] matrix, 4 B each.
[[nodiscard]] Bytes group_metadata_bytes(std::int64_t num_rows, std::int64_t columns, std::int64_t group,
                                         GroupAxis axis);

}  // namespace kvtide::kv

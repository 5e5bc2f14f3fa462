#pragma once
// Integers in groups. Asymmetric: code = round((x - zero) / scale), scale = (max - min) / (2^bits - 1), zero = min; a group
// stores scale and zero in fp16. Symmetric: code = round(x / scale), scale = max|x| / (2^(bits-1) - 1); a group stores its
// scale only. Example: groups of 32 cost 4 + 32/32 = 5 bits an element as asymmetric int4, 8 + 16/32 = 8.5 as symmetric int8.
// Axis `channel`: a group is `group` consecutive entries of one channel (KIVI keys, arXiv 2402.02750); axis `token`: `group`
// consecutive channels of one entry (KIVI values). A block's last group may be shorter along the tokens.

#include "kv/compression/compression.h"

namespace kvtide::kv {

struct IntegerGroups {
  std::int32_t bits = 4;
  std::int64_t group = 32;
  bool is_symmetric = false;
};

/// Encodes and decodes rows first..first+num_rows-1 in place; groups start at `first`.
void quantize_rows(RowMatrix& values, std::int64_t first, std::int64_t num_rows, const IntegerGroups& format,
                   GroupAxis axis);

/// Bytes of the scales and zero points of a [num_rows, columns] matrix; a group cut short costs as much as a whole one.
[[nodiscard]] Bytes group_metadata_bytes(std::int64_t num_rows, std::int64_t columns, const IntegerGroups& format,
                                         GroupAxis axis);

/// Stored bits of one element, metadata of whole groups included.
[[nodiscard]] double effective_bits(const IntegerGroups& format);

}  // namespace kvtide::kv

#include "kv/compression/integer_codec.h"

#include <algorithm>

#include "kv/compression/codec.h"
#include "kv/compression/group_codes.h"

namespace kvtide::kv {
namespace {

constexpr Bytes kFp16Bytes = 2;

Bytes metadata_of_group(bool is_symmetric) {
  return is_symmetric ? kFp16Bytes : 2 * kFp16Bytes;
}

GroupLevels levels_of(const IntegerGroups& format) {
  const auto largest = static_cast<float>((1 << (format.is_symmetric ? format.bits - 1 : format.bits)) - 1);
  return {.smallest = format.is_symmetric ? -largest : 0.0F, .largest = largest, .is_symmetric = format.is_symmetric};
}

IntegerGroups groups_of(const CodecUse& use) {
  return {use.codec->bits, use.stage->group, use.stage->is_symmetric};
}
GroupAxis axis_of(const CodecUse& use) {
  return use.is_key ? use.stage->k_axis : use.stage->v_axis;
}

Codec integer(std::string_view name, std::int32_t bits) {
  return {
      .name = name,
      .summary = "integers in groups with a 16-bit scale and, unless symmetric, a 16-bit zero point",
      .paper = "arXiv 2402.02750",
      .bits = bits,
      .divisor = bits == 3 ? 8 : 1,
      .takes_groups = true,
      .row_bytes = [](const CodecUse& use) { return static_cast<Bytes>(ceil_div(use.columns * use.codec->bits, 8)); },
      .block_metadata =
          [](const CodecUse& use, std::int64_t num_rows) {
            return group_metadata_bytes(num_rows, use.columns, groups_of(use), axis_of(use));
          },
      .code =
          [](const CodecUse& use, const CodecRows& rows) {
            std::int64_t first = 0;
            for (const std::int64_t num_rows : rows.block_rows) {
              quantize_rows(*rows.values, first, num_rows, groups_of(use), axis_of(use));
              first += num_rows;
            }
          }};
}

}  // namespace

Bytes group_metadata_bytes(std::int64_t num_rows, std::int64_t columns, const IntegerGroups& format, GroupAxis axis) {
  const std::int64_t num_groups = axis == GroupAxis::channel ? ceil_div(num_rows, format.group) * columns
                                                             : num_rows * ceil_div(columns, format.group);
  return static_cast<Bytes>(num_groups) * metadata_of_group(format.is_symmetric);
}

double effective_bits(const IntegerGroups& format) {
  return format.bits +
         8.0 * static_cast<double>(metadata_of_group(format.is_symmetric)) / static_cast<double>(format.group);
}

void quantize_rows(RowMatrix& values, std::int64_t first, std::int64_t num_rows, const IntegerGroups& format,
                   GroupAxis axis) {
  const GroupLevels levels = levels_of(format);
  const std::int64_t columns = values.cols();
  const std::int64_t end = first + num_rows;
  if (axis == GroupAxis::channel) {
    for (std::int64_t row = first; row < end; row += format.group) {
      code_columns(values.row(row).data(), columns, std::min(format.group, end - row), columns, levels);
    }
    return;
  }
  const std::int64_t whole = columns / format.group;
  const std::int64_t rest = columns % format.group;
  if (rest == 0) {
    if (num_rows > 0) code_groups(values.row(first).data(), format.group, num_rows * whole, levels);
    return;
  }
  for (std::int64_t row = first; row < end; ++row) {
    code_groups(values.row(row).data(), format.group, whole, levels);
    code_groups(values.row(row).data() + whole * format.group, rest, 1, levels);
  }
}

std::vector<Codec> integer_codecs() {
  return {integer("int8", 8), integer("int4", 4), integer("int3", 3), integer("int2", 2)};
}

}  // namespace kvtide::kv

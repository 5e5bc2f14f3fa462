#include "kv/compression/integer_codec.h"

#include <algorithm>
#include <cmath>

#include "kv/compression/codec.h"

namespace kvtide::kv {
namespace {

float to_half(float x) {
  return static_cast<float>(static_cast<Eigen::half>(x));
}

constexpr Bytes kFp16Bytes = 2;

Bytes metadata_of_group(bool is_symmetric) {
  return is_symmetric ? kFp16Bytes : 2 * kFp16Bytes;
}

template <typename Group>
void encode_and_decode(Group&& group, const IntegerGroups& format) {
  const float largest_code = static_cast<float>((1 << (format.is_symmetric ? format.bits - 1 : format.bits)) - 1);
  const float smallest_code = format.is_symmetric ? -largest_code : 0.0F;
  const float zero = format.is_symmetric ? 0.0F : to_half(group.minCoeff());
  const float range = format.is_symmetric ? group.cwiseAbs().maxCoeff() : group.maxCoeff() - zero;
  const float scale = to_half(range / largest_code);
  if (scale == 0) {
    group.setConstant(zero);
    return;
  }
  group = ((group.array() - zero) / scale).round().max(smallest_code).min(largest_code).matrix() * scale;
  group.array() += zero;
}

IntegerGroups groups_of(const CodecUse& use) {
  return {use.codec->bits, use.stage->group, use.stage->is_symmetric};
}
GroupAxis axis_of(const CodecUse& use) {
  return use.is_key ? use.stage->k_axis : use.stage->v_axis;
}

Codec integer(std::string_view name, std::int32_t bits) {
  return {.name = name,
          .summary = "integers in groups with a 16-bit scale and, unless symmetric, a 16-bit zero point",
          .paper = "arXiv 2402.02750",
          .bits = bits,
          .divisor = bits == 3 ? 8 : 1,
          .takes_groups = true,
          .row_bytes = [](const CodecUse& use) { return static_cast<Bytes>(use.columns * use.codec->bits / 8); },
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
  const std::int64_t end = first + num_rows;
  if (axis == GroupAxis::channel) {
    for (std::int64_t row = first; row < end; row += format.group) {
      const std::int64_t rows = std::min(format.group, end - row);
      for (std::int64_t column = 0; column < values.cols(); ++column) {
        encode_and_decode(values.col(column).segment(row, rows), format);
      }
    }
  } else {
    for (std::int64_t row = first; row < end; ++row) {
      for (std::int64_t column = 0; column < values.cols(); column += format.group) {
        encode_and_decode(values.row(row).segment(column, std::min(format.group, values.cols() - column)), format);
      }
    }
  }
}

std::vector<Codec> integer_codecs() {
  return {integer("int8", 8), integer("int4", 4), integer("int3", 3), integer("int2", 2)};
}

}  // namespace kvtide::kv

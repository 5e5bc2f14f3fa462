#include "gpu/dequantize.h"

#include <fmt/format.h>

#include "base/error.h"

namespace kvtide::gpu {
namespace {

constexpr std::int64_t kElementsPerBlock = 8192;  // 256 threads x 32: one load of 16 B of int4 codes each
constexpr double kFlopsPerElement = 4;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 50;

}  // namespace

StreamWork dequantize_work(const DequantizeShape& shape) {
  if (shape.num_elements < 0 || shape.num_elements > kMaxElements || shape.bits < 1 || shape.bits > 16 ||
      shape.group_size < 1 || shape.group_bits < 0 || shape.group_bits > 1024) {
    throw InputError(
        fmt::format("dequantize: elements, bits (1..16), group_size and group_bits must be in range, got {}, "
                    "{}, {} and {}",
                    shape.num_elements, shape.bits, shape.group_size, shape.group_bits));
  }
  const std::int64_t code_bytes = ceil_div(shape.num_elements * shape.bits, 8);
  const std::int64_t scale_bytes = ceil_div(ceil_div(shape.num_elements, shape.group_size) * shape.group_bits, 8);
  return {.num_blocks = ceil_div(shape.num_elements, kElementsPerBlock),
          .read_bytes = static_cast<Bytes>(code_bytes + scale_bytes),
          .write_bytes = static_cast<Bytes>(2 * shape.num_elements),
          .chunk_bytes = shape.chunk_bytes,
          .flops = kFlopsPerElement * static_cast<double>(shape.num_elements)};
}

}  // namespace kvtide::gpu

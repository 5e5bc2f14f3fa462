#include "gpu/normalize_rows.h"

#include <fmt/format.h>

#include "base/error.h"

namespace kvtide::gpu {

StreamWork normalize_work(const NormalizeShape& shape) {
  constexpr std::int64_t kMaxRows = std::int64_t{1} << 36;
  constexpr std::int64_t kMaxSize = std::int64_t{1} << 22;
  if (shape.num_rows < 0 || shape.num_rows > kMaxRows || shape.row_size < 1 || shape.row_size > kMaxSize) {
    throw InputError(
        fmt::format("normalize: rows and row_size must be in range, got {} and {}", shape.num_rows, shape.row_size));
  }
  const Bytes row = 2 * static_cast<Bytes>(shape.row_size);
  const Bytes tensors = shape.adds_residual ? 2 : 1;
  return {.num_blocks = shape.num_rows,
          .read_bytes = tensors * row * static_cast<Bytes>(shape.num_rows),
          .write_bytes = tensors * row * static_cast<Bytes>(shape.num_rows),
          .chunk_bytes = Bytes{64} << 10,
          .flops = 5 * static_cast<double>(shape.num_rows) * static_cast<double>(shape.row_size),
          .input = L2State::warm};
}

}  // namespace kvtide::gpu

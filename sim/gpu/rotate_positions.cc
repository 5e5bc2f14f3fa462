#include "gpu/rotate_positions.h"

#include <fmt/format.h>

#include "base/error.h"

namespace kvtide::gpu {

StreamWork rotate_work(const RotateShape& shape) {
  constexpr std::int64_t kMaxTokens = std::int64_t{1} << 31;
  if (shape.num_tokens < 0 || shape.num_tokens > kMaxTokens || shape.heads < 1 || shape.heads > 65536 ||
      shape.head_dim < 1 || shape.head_dim > 65536) {
    throw InputError(fmt::format("rotate: tokens, heads and head_dim must be in range, got {}, {} and {}",
                                 shape.num_tokens, shape.heads, shape.head_dim));
  }
  const double channels = static_cast<double>(shape.num_tokens) * static_cast<double>(shape.heads * shape.head_dim);
  const Bytes bytes = static_cast<Bytes>(2 * channels);
  return {.num_blocks = shape.num_tokens,
          .read_bytes = bytes,
          .write_bytes = bytes,
          .chunk_bytes = Bytes{64} << 10,
          .flops = 3 * channels,
          .input = L2State::warm};
}

}  // namespace kvtide::gpu

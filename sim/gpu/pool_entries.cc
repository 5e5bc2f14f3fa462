#include "gpu/pool_entries.h"

#include <fmt/format.h>

#include "base/error.h"

namespace kvtide::gpu {

StreamWork pool_work(const PoolShape& shape) {
  constexpr std::int64_t kMaxEntries = std::int64_t{1} << 40;
  constexpr Bytes kEntryBytesPerChannel = 4;  // K and V, 16 bit
  if (shape.num_entries < 0 || shape.num_entries > kMaxEntries || shape.width < 1 || shape.head_dim < 1 ||
      shape.head_dim > 65536 || shape.block_entries < 1) {
    throw InputError(
        fmt::format("pool: entries, width, head_dim and block_entries must be in range, got {}, {}, {}, {}",
                    shape.num_entries, shape.width, shape.head_dim, shape.block_entries));
  }
  const Bytes entry_bytes = static_cast<Bytes>(shape.head_dim) * kEntryBytesPerChannel;
  const double elements = 2 * static_cast<double>(shape.num_entries) * static_cast<double>(shape.head_dim);
  return {.num_blocks = ceil_div(shape.num_entries, shape.block_entries),
          .read_bytes = static_cast<Bytes>(shape.num_entries) * entry_bytes,
          .write_bytes = static_cast<Bytes>(ceil_div(shape.num_entries, shape.width)) * entry_bytes,
          .chunk_bytes = shape.chunk_bytes,
          .flops = 2 * elements};
}

}  // namespace kvtide::gpu

#include "gpu/gather_entries.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace kvtide::gpu {

StreamWork gather_work(const GatherShape& shape) {
  constexpr std::int64_t kMaxEntries = std::int64_t{1} << 38;
  constexpr std::int64_t kEntriesPerBlock = 32;  // eight warps, four entries each
  constexpr Bytes kIndexBytes = 4;
  if (shape.num_entries < 0 || shape.num_entries > kMaxEntries || shape.head_dim < 1 || shape.head_dim > 65536 ||
      shape.bits < 1 || shape.bits > 32 || shape.run_entries < 1 || shape.run_entries > kMaxEntries) {
    throw InputError(
        fmt::format("gather: entries, head_dim, bits and run_entries must be in range, got {}, {}, {} and {}",
                    shape.num_entries, shape.head_dim, shape.bits, shape.run_entries));
  }
  const Bytes row = std::max<Bytes>(1, static_cast<Bytes>(shape.head_dim * shape.bits / 8));  // of K, or of V
  const Bytes moved = 2 * row * static_cast<Bytes>(shape.num_entries);
  const Bytes run =
      std::min<Bytes>(Bytes{64} << 10, row * static_cast<Bytes>(std::min<std::int64_t>(shape.run_entries, 65536)));
  return {.num_blocks = ceil_div(shape.num_entries, kEntriesPerBlock),
          .read_bytes = moved + kIndexBytes * static_cast<Bytes>(ceil_div(shape.num_entries, shape.run_entries)),
          .write_bytes = moved,
          .chunk_bytes = std::max<Bytes>(32, run)};
}

}  // namespace kvtide::gpu

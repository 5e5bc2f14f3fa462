#include "gpu/top_k.h"

#include <fmt/format.h>

#include "base/error.h"

namespace kvtide::gpu {

StreamWork top_k_work(const TopKShape& shape) {
  constexpr std::int64_t kMaxLists = std::int64_t{1} << 22;
  constexpr std::int64_t kMaxSize = std::int64_t{1} << 31;
  constexpr int kPasses = 4;            // 32 bits, eight at a time
  constexpr Bytes kScoreBytes = 4;      // fp32
  constexpr double kFlopsPerScore = 4;  // of each pass: shift, mask, compare with the prefix, count
  if (shape.num_lists < 1 || shape.num_lists > kMaxLists || shape.list_size < 0 || shape.list_size > kMaxSize ||
      shape.num_kept < 0 || shape.num_kept > shape.list_size) {
    throw InputError(fmt::format("top-k: lists, their size and the kept must be in range, got {}, {} and {}",
                                 shape.num_lists, shape.list_size, shape.num_kept));
  }
  const Bytes scores = static_cast<Bytes>(shape.num_lists) * static_cast<Bytes>(shape.list_size);
  return {.num_blocks = shape.list_size > 0 ? shape.num_lists : 0,
          .read_bytes = kPasses * kScoreBytes * scores,
          .write_bytes = kScoreBytes * static_cast<Bytes>(shape.num_lists) * static_cast<Bytes>(shape.num_kept),
          .chunk_bytes = Bytes{64} << 10,
          .flops = kPasses * kFlopsPerScore * static_cast<double>(scores),
          .num_launches = kPasses,  // a pass needs the histogram of the one before
          .input = L2State::warm};  // the scorer has just written them; later passes read them again
}

}  // namespace kvtide::gpu

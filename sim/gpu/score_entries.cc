#include "gpu/score_entries.h"

#include <fmt/format.h>

#include "base/error.h"

namespace kvtide::gpu {

StreamWork score_work(const ScoreShape& shape) {
  constexpr std::int64_t kMaxEntries = std::int64_t{1} << 31;
  constexpr std::int64_t kMaxHeads = std::int64_t{1} << 22;
  constexpr std::int64_t kEntriesPerBlock = 128;
  constexpr double kFlopsPerWeight = 8;  // see the header's example
  if (shape.num_entries < 0 || shape.num_entries > kMaxEntries || shape.kv_heads < 1 || shape.kv_heads > kMaxHeads ||
      shape.head_dim < 1 || shape.head_dim > 65536 || shape.num_queries < 0 || shape.num_queries > kMaxHeads ||
      shape.key_bits < 1 || shape.key_bits > 16) {
    throw InputError(
        fmt::format("score: entries, kv_heads, head_dim, queries and key_bits must be in range, got {}, {}, {}, "
                    "{} and {}",
                    shape.num_entries, shape.kv_heads, shape.head_dim, shape.num_queries, shape.key_bits));
  }
  const double entries = static_cast<double>(shape.num_entries) * static_cast<double>(shape.kv_heads);
  const double head_dim = static_cast<double>(shape.head_dim);
  const double queries = static_cast<double>(shape.num_queries);
  StreamWork work;
  work.num_blocks = ceil_div(shape.num_entries, kEntriesPerBlock) * shape.kv_heads;
  work.read_bytes = static_cast<Bytes>(entries * head_dim * static_cast<double>(shape.key_bits) / 8 +
                                       2 * queries * head_dim * static_cast<double>(shape.kv_heads));
  work.write_bytes = static_cast<Bytes>(4 * entries);
  work.chunk_bytes = shape.chunk_bytes;
  work.tensor_flops = 2 * queries * head_dim * entries;
  work.flops = shape.num_queries > 0 ? kFlopsPerWeight * queries * entries : 2 * head_dim * entries;
  work.query_flops = shape.num_queries > 0 ? work.flops : 0;
  work.num_launches = shape.num_queries > 0 ? 2 : 1;  // the softmax needs the sum over all entries
  return work;
}

}  // namespace kvtide::gpu

#include "kv/compression/attention_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kv/compression/dot_products.h"

namespace kvtide::kv {
namespace {

/// Queries whose logits are in flight together; a multiple of the kernel's own tile.
constexpr std::int64_t kRowsAtOnce = 8;

}  // namespace

QueryRows query_rows(const HeadTensors& head, std::int64_t first, std::int64_t end, const char* scorer) {
  const std::int64_t from = std::max<std::int64_t>(first, 0);
  const auto begin = std::ranges::lower_bound(head.q_positions, from);
  const auto last = std::ranges::lower_bound(head.q_positions, end);
  if (last - begin != end - from || end <= from) {
    throw InputError(fmt::format("{} needs the queries at positions {}..{}, the trace holds {} of these {}", scorer,
                                 from, end - 1, last - begin, end - from));
  }
  return {begin - head.q_positions.begin(), last - head.q_positions.begin()};
}

std::vector<double> attention_columns(const HeadTensors& head, QueryRows rows, std::int64_t num_keys,
                                      std::span<const double> weights) {
  const TransposedKeys keys(head.k_post, num_keys);
  std::vector<double> sums(static_cast<std::size_t>(num_keys), 0.0);
  std::vector<float> partial(static_cast<std::size_t>(keys.stride()), 0.0F);
  std::vector<float> logits(static_cast<std::size_t>(kRowsAtOnce * keys.stride()));
  for (std::int64_t query_head = 0; query_head < head.group_size; ++query_head) {
    for (std::int64_t row = rows.begin; row < rows.end; row += kRowsAtOnce) {
      const std::int64_t count = std::min(kRowsAtOnce, rows.end - row);
      const std::int64_t last_seen =
          std::min(num_keys, head.q_positions[static_cast<std::size_t>(row + count - 1)] + 1);
      const float* queries = head.q_post.row(query_head * head.num_queries() + row).data();
      keys.multiply(queries, count, head.attention_scale, last_seen, logits.data());
      for (std::int64_t index = 0; index < count; ++index) {
        const std::int64_t seen = std::min(num_keys, head.q_positions[static_cast<std::size_t>(row + index)] + 1);
        float* of_query = logits.data() + index * keys.stride();
        const double total = exponentials(of_query, seen);
        const double weight = weights.empty() ? 1.0 : weights[static_cast<std::size_t>(row + index - rows.begin)];
        add_scaled(of_query, seen, static_cast<float>(weight / total), partial.data());
      }
      // A few float32 additions at a time, then into float64: error of a sum does not grow with the queries.
      for (std::int64_t position = 0; position < last_seen; ++position) {
        sums[static_cast<std::size_t>(position)] += static_cast<double>(partial[static_cast<std::size_t>(position)]);
        partial[static_cast<std::size_t>(position)] = 0;
      }
    }
  }
  return sums;
}

}  // namespace kvtide::kv

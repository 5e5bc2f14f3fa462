#include "kv/compression/attention_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "kv/compression/dot_products.h"

namespace kvtide::kv {
namespace {

/// Up to so many queries a query head the keys are read as they lie.
constexpr std::int64_t kFewRows = 2;

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
  const bool is_few = rows.size() <= kFewRows;
  const TransposedKeys keys(head.k_post, is_few ? 0 : num_keys);
  const std::int64_t stride = is_few ? num_keys : keys.stride();
  std::vector<double> sums(static_cast<std::size_t>(num_keys), 0.0);
  std::vector<float> partial(static_cast<std::size_t>(num_keys));
  ProductSpace space(kProductRows * stride);
  float* logits = space.data();
  std::array<float, kProductRows> factors{};
  for (std::int64_t query_head = 0; query_head < head.group_size; ++query_head) {
    for (std::int64_t row = rows.begin; row < rows.end; row += kProductRows) {
      const std::int64_t count = std::min(kProductRows, rows.end - row);
      const auto seen_by = [&](std::int64_t index) {
        return std::min(num_keys, head.q_positions[static_cast<std::size_t>(row + index)] + 1);
      };
      const std::int64_t last_seen = seen_by(count - 1);
      const float* queries = head.q_post.row(query_head * head.num_queries() + row).data();
      if (is_few) {
        for (std::int64_t index = 0; index < count; ++index) {
          single_row_products(queries + index * head.head_dim(), head.k_post, last_seen, head.attention_scale,
                              logits + index * stride);
        }
      } else {
        keys.multiply(queries, count, head.attention_scale, last_seen, logits);
      }
      for (std::int64_t index = 0; index < count; ++index) {
        const std::int64_t seen = seen_by(index);
        float* of_query = logits + index * stride;
        const double total = exponentials(of_query, seen);
        const double weight = weights.empty() ? 1.0 : weights[static_cast<std::size_t>(row + index - rows.begin)];
        factors[static_cast<std::size_t>(index)] = static_cast<float>(weight / total);
        std::fill(of_query + seen, of_query + last_seen, 0.0F);
      }
      // A few float32 additions at a time, then into float64: error of a sum does not grow with the queries.
      std::fill_n(partial.begin(), last_seen, 0.0F);
      add_scaled_rows(logits, stride, count, last_seen, factors.data(), partial.data());
      for (std::int64_t position = 0; position < last_seen; ++position) {
        sums[static_cast<std::size_t>(position)] += static_cast<double>(partial[static_cast<std::size_t>(position)]);
      }
    }
  }
  return sums;
}

}  // namespace kvtide::kv

#include "kv/compression/attention_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "kv/compression/dot_products.h"
#include "kv/compression/softmax_columns.h"

namespace kvtide::kv {
namespace {

/// Up to so many queries a query head the keys are read as they lie.
constexpr std::int64_t kFewRows = 2;
/// Blocks of queries whose sums are float32 before float64 takes over: the error of a sum does not grow with the queries.
constexpr std::int64_t kBlocksAtOnce = 8;

/// Keys that a row of queries sees.
std::int64_t num_seen(const HeadTensors& head, std::int64_t row, std::int64_t num_keys) {
  return std::min(num_keys, head.q_positions[static_cast<std::size_t>(row)] + 1);
}

const float* query_of(const HeadTensors& head, std::int64_t query_head, std::int64_t row) {
  return head.q_post.row(query_head * head.num_queries() + row).data();
}

/// One row of logits after the other.
std::vector<double> columns_of_few(const HeadTensors& head, QueryRows rows, std::int64_t num_keys,
                                   std::span<const double> weights) {
  std::vector<double> sums(static_cast<std::size_t>(num_keys), 0.0);
  for (std::int64_t query_head = 0; query_head < head.group_size; ++query_head) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const std::int64_t seen = num_seen(head, row, num_keys);
      std::vector<float> logits =
          single_row_products(query_of(head, query_head, row), head.k_post, seen, head.attention_scale);
      const double total = exponentials(logits.data(), seen);
      const double weight = (weights.empty() ? 1.0 : weights[static_cast<std::size_t>(row - rows.begin)]) / total;
      for (std::int64_t key = 0; key < seen; ++key) {
        sums[static_cast<std::size_t>(key)] += weight * static_cast<double>(logits[static_cast<std::size_t>(key)]);
      }
    }
  }
  return sums;
}

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
  if (rows.size() <= kFewRows) return columns_of_few(head, rows, num_keys, weights);
  const KeyProducts keys(head.k_post, num_keys);
  SoftmaxColumns columns(num_keys);
  std::vector<double> sums(static_cast<std::size_t>(num_keys), 0.0);
  RowMatrix queries(kQueryLanes, head.head_dim());
  const std::int64_t num_queries = head.group_size * rows.size();
  std::int64_t num_blocks = 0;
  for (std::int64_t first = 0; first < num_queries; first += kQueryLanes) {
    queries.setZero();
    std::array<std::int64_t, kQueryLanes> seen{};
    std::array<double, kQueryLanes> weight{};
    for (std::int64_t lane = 0; lane < std::min(kQueryLanes, num_queries - first); ++lane) {
      const std::int64_t index = (first + lane) % rows.size();
      const std::int64_t row = rows.begin + index;
      const float* query = query_of(head, (first + lane) / rows.size(), row);
      for (std::int64_t channel = 0; channel < head.head_dim(); ++channel) {
        queries(lane, channel) = head.attention_scale * query[channel];
      }
      seen[static_cast<std::size_t>(lane)] = num_seen(head, row, num_keys);
      weight[static_cast<std::size_t>(lane)] = weights.empty() ? 1.0 : weights[static_cast<std::size_t>(index)];
    }
    const std::int64_t last_seen = *std::ranges::max_element(seen);
    keys.multiply(queries.data(), last_seen, columns.logits());
    columns.add(seen, weight, last_seen);
    if (++num_blocks % kBlocksAtOnce == 0) columns.move_into(sums);
  }
  columns.move_into(sums);
  return sums;
}

}  // namespace kvtide::kv

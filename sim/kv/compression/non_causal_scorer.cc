#include "kv/compression/non_causal_scorer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kv/compression/attention_columns.h"
#include "kv/compression/dot_products.h"
#include "kv/compression/row_statistics.h"
#include "kv/compression/standardise.h"

namespace kvtide::kv {
namespace {

LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  return non_causal_scores(layer, 0, context.num_positions, context.integer("chunk"), false);
}

/// Adds what the chunk's keys receive from the chunk's queries of one query head. @param sums  [position of the chunk]
void add_chunk(const HeadTensors& head, const TransposedKeys& keys, std::int64_t first_row, std::int64_t count,
               std::int64_t padding, std::vector<double>& sums) {
  ProductSpace space(kProductRows * keys.stride());
  float* products = space.data();
  std::vector<float> partial(static_cast<std::size_t>(count));
  std::array<float, kProductRows> factors{};
  for (std::int64_t row = 0; row < count; row += kProductRows) {
    const std::int64_t num_rows = std::min(kProductRows, count - row);
    keys.multiply(head.q_post.row(first_row + row).data(), num_rows, 1.0F, count + padding, products);
    for (std::int64_t index = 0; index < num_rows; ++index) {
      // Padded keys are zero: their products are 0 and lie right behind the chunk's own.
      const double total = exponentials(products + index * keys.stride(), count + padding);
      factors[static_cast<std::size_t>(index)] = static_cast<float>(1 / total);
    }
    std::ranges::fill(partial, 0.0F);
    add_scaled_rows(products, keys.stride(), num_rows, count, factors.data(), partial.data());
    for (std::int64_t position = 0; position < count; ++position) {
      sums[static_cast<std::size_t>(position)] += static_cast<double>(partial[static_cast<std::size_t>(position)]);
    }
  }
  // A padded query is zero: it attends to all alike.
  const double from_padding = static_cast<double>(padding) / static_cast<double>(count + padding);
  for (double& sum : sums) sum += from_padding;
}

}  // namespace

LayerScores non_causal_scores(const LayerTensors& layer, std::int64_t first, std::int64_t end, std::int64_t chunk,
                              bool is_padded) {
  LayerScores result;
  for (const HeadTensors& head : layer) {
    const QueryRows rows = query_rows(head, first, end, "non_causal");
    std::vector<double> received;
    for (std::int64_t begin = first; begin < end; begin += chunk) {
      const std::int64_t count = std::min(chunk, end - begin);
      const std::int64_t padding = is_padded ? chunk - count : 0;
      RowMatrix padded;
      if (padding > 0) {
        padded = RowMatrix::Zero(count + padding, head.head_dim());
        padded.topRows(count) = head.k_post.middleRows(begin, count);
      }
      const TransposedKeys keys = padding > 0 ? TransposedKeys(padded, count + padding)
                                              : TransposedKeys(head.k_post.middleRows(begin, count), count);
      std::vector<double> sums(static_cast<std::size_t>(count), 0.0);
      for (std::int64_t query_head = 0; query_head < head.group_size; ++query_head) {
        add_chunk(head, keys, query_head * head.num_queries() + rows.begin + (begin - first), count, padding, sums);
      }
      received.insert(received.end(), sums.begin(), sums.end());
    }
    const std::vector<float> squares = squared_lengths(head.v.middleRows(first, end - first), end - first);
    for (std::size_t index = 0; index < received.size(); ++index) {
      received[index] *= static_cast<double>(std::sqrt(squares[index])) / static_cast<double>(head.group_size);
    }
    std::vector<double>& smooth = result.emplace_back(received.size());
    for (std::size_t index = 0; index < received.size(); ++index) {
      const double before = index > 0 ? received[index - 1] : 0;
      const double after = index + 1 < received.size() ? received[index + 1] : 0;
      smooth[index] = (before + received[index] + after) / 3;
    }
  }
  standardise(result);
  return result;
}

ScorerEntry non_causal_scorer() {
  return {"non_causal",
          "attention inside chunks, later queries included, times |v|; sees the future inside a chunk",
          "arXiv 2507.08143",
          {{"chunk", 256, 1, 65536, true, "positions of a chunk"}},
          {.queries = ScorerNeeds::Queries::all, .values = true, .flops_per_key_element = 2},
          &scores};
}

}  // namespace kvtide::kv

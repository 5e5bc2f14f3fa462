#include "kv/compression/lagkv_scorer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/vector_width.h"
#include "kv/compression/dot_products.h"
#include "kv/compression/row_statistics.h"

namespace kvtide::kv {
namespace {

/// Softmax over a partition of the deviation of its rows, in units of the range each channel has in the partition after.
std::vector<float> partition_scores(const RowMatrix& rows, std::int64_t first, std::int64_t lag) {
  std::vector<float> weights = scaled_deviations(rows.middleRows(first, lag), rows.middleRows(first + lag, lag));
  const auto total = static_cast<float>(exponentials(weights.data(), lag));
  for (float& weight : weights) weight /= total;
  return weights;
}

/// Up to so many values each is compared with every other; more are sorted.
constexpr std::size_t kFewValues = 1024;

/// ranks[i] = values below values[i].
KVTIDE_EVERY_VECTOR_WIDTH
void count_below(const float* values, std::int32_t count, std::int32_t* ranks) {
  for (std::int32_t index = 0; index < count; ++index) {
    const float own = values[index];
    std::int32_t below = 0;
    for (std::int32_t other = 0; other < count; ++other) below += values[other] < own ? 1 : 0;
    ranks[index] = below;
  }
}

/// Rank of each value, 0 the smallest; equal ones in order.
std::vector<std::int32_t> ranks_of(const std::vector<float>& values) {
  std::vector<std::int32_t> ranks(values.size());
  if (values.size() <= kFewValues) {
    count_below(values.data(), static_cast<std::int32_t>(values.size()), ranks.data());
    std::vector<std::int32_t> num_equal(values.size(), 0);  // [rank] that came before
    for (std::int32_t& rank : ranks) rank += num_equal[static_cast<std::size_t>(rank)]++;
    return ranks;
  }
  std::vector<std::int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::int32_t index) { return values[static_cast<std::size_t>(index)]; });
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    ranks[static_cast<std::size_t>(order[rank])] = static_cast<std::int32_t>(rank);
  }
  return ranks;
}

LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  const std::int64_t sinks = context.integer("sinks");
  const std::int64_t lag = context.integer("lag");
  const std::int64_t size = context.num_positions;
  const bool compares_partitions = context.integer("cross_scoring") == 1;
  std::vector<double> plain(static_cast<std::size_t>(size), 1.0);
  if (size < sinks + 2 * lag) {
    for (std::int64_t position = sinks; position < size; ++position) {
      plain[static_cast<std::size_t>(position)] =
          static_cast<double>(position - sinks) / static_cast<double>(size - sinks);
    }
    return LayerScores(layer.size(), plain);
  }
  const std::int64_t end = sinks + (size - sinks) / lag * lag;
  LayerScores result;
  for (const HeadTensors& head : layer) {
    std::vector<double>& of_head = result.emplace_back(plain);
    for (std::int64_t first = sinks; first + lag < end; first += lag) {
      std::vector<float> score = partition_scores(head.k_post, first, lag);
      const std::vector<float> of_values = partition_scores(head.v, first, lag);
      for (std::size_t row = 0; row < score.size(); ++row) score[row] = (score[row] + of_values[row]) / 2;
      const auto out = of_head.begin() + first;
      if (compares_partitions) {
        std::ranges::copy(score, out);
      } else {
        std::ranges::transform(ranks_of(score), out,
                               [&](std::int32_t rank) { return rank / static_cast<double>(lag); });
      }
    }
  }
  return result;
}

}  // namespace

ScorerEntry lagkv_scorer() {
  return {"lagkv",
          "rank in its partition of the deviation over channels, in units of the next partition's range",
          "arXiv 2504.04704",
          {{"sinks", 4, 0, 1 << 20, true, "first positions that stay"},
           {"lag", 128, 1, 1 << 20, true, "positions of a partition"},
           {"cross_scoring", 0, 0, 1, true, "1: partitions compete by score, not by rank"}},
          {.values = true, .flops_per_key_element = 12},
          &scores};
}

}  // namespace kvtide::kv

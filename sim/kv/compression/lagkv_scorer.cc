#include "kv/compression/lagkv_scorer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvtide::kv {
namespace {

/// Softmax over a partition of the deviation of its rows, in units of the range each channel has in the partition after.
Eigen::VectorXf partition_scores(const RowMatrix& rows, std::int64_t first, std::int64_t lag) {
  const auto own = rows.middleRows(first, lag);
  const auto next = rows.middleRows(first + lag, lag);
  const Eigen::RowVectorXf smallest = next.colwise().minCoeff();
  const Eigen::RowVectorXf range = next.colwise().maxCoeff() - smallest;
  const auto channels = static_cast<float>(rows.cols());
  Eigen::VectorXf deviation(lag);
  for (std::int64_t row = 0; row < lag; ++row) {
    const Eigen::RowVectorXf scaled = (own.row(row) - smallest).cwiseQuotient(range);
    const float mean = scaled.sum() / channels;
    deviation[row] = std::sqrt((scaled.array() - mean).square().sum() / (channels - 1));
  }
  const Eigen::VectorXf weights = (deviation.array() - deviation.maxCoeff()).exp();
  return weights / weights.sum();
}

/// Rank of each value, 0 the smallest; equal ones in order.
std::vector<std::int64_t> ranks_of(const Eigen::VectorXf& values) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(values.size()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::stable_sort(order, {}, [&](std::int64_t index) { return values[index]; });
  std::vector<std::int64_t> ranks(order.size());
  for (std::size_t rank = 0; rank < order.size(); ++rank)
    ranks[static_cast<std::size_t>(order[rank])] = static_cast<std::int64_t>(rank);
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
      const Eigen::VectorXf score =
          (partition_scores(head.k_post, first, lag) + partition_scores(head.v, first, lag)) / 2;
      const std::vector<std::int64_t> ranks = ranks_of(score);
      for (std::int64_t row = 0; row < lag; ++row) {
        of_head[static_cast<std::size_t>(first + row)] =
            compares_partitions ? static_cast<double>(score[row])
                                : static_cast<double>(ranks[static_cast<std::size_t>(row)]) / static_cast<double>(lag);
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

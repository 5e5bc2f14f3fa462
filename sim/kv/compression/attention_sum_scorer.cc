#include "kv/compression/attention_sum_scorer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace kvtide::kv {
namespace {

std::vector<double> head_scores(const HeadTensors& head, const ScorerContext& context) {
  const std::int64_t first_query = context.num_positions - std::min(context.score_window, context.num_positions);
  const auto begin = std::ranges::lower_bound(head.q_positions, first_query);
  const auto end = std::ranges::lower_bound(head.q_positions, context.num_positions);
  const std::int64_t found = end - begin;
  const std::int64_t needed = context.num_positions - first_query;
  if (found != needed) {
    throw InputError(fmt::format("attention_sum needs the queries at positions {}..{}, the trace holds {} of these {}",
                                 first_query, context.num_positions - 1, found, needed));
  }
  const Eigen::MatrixXd keys = head.k_post.topRows(context.num_positions).cast<double>();
  Eigen::VectorXd mass = Eigen::VectorXd::Zero(context.num_positions);
  for (std::int64_t query_head = 0; query_head < head.group_size; ++query_head) {
    for (std::int64_t index = begin - head.q_positions.begin(); index < end - head.q_positions.begin(); ++index) {
      const std::int64_t seen = head.q_positions[static_cast<std::size_t>(index)] + 1;
      const Eigen::VectorXd query = head.q_post.row(query_head * head.num_queries() + index).cast<double>().transpose();
      Eigen::ArrayXd weights = (keys.topRows(seen) * query * static_cast<double>(head.attention_scale)).array();
      weights = (weights - weights.maxCoeff()).exp();
      mass.head(seen) += (weights / weights.sum()).matrix();
    }
  }
  return {mass.begin(), mass.end()};
}

}  // namespace

LayerScores attention_sum_scores(const LayerTensors& layer, const ScorerContext& context) {
  LayerScores scores;
  for (const HeadTensors& head : layer) scores.push_back(head_scores(head, context));
  return scores;
}

ScorerEntry attention_sum_scorer() {
  return {"attention_sum",
          "softmax mass received from the last score_window queries, summed over the group",
          "arXiv 2306.14048",
          {},
          {.queries = ScorerNeeds::Queries::window},
          &attention_sum_scores};
}

}  // namespace kvtide::kv

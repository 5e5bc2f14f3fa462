#include "kv/compression/expected_attention_scorer.h"

#include <algorithm>
#include <cmath>

#include "kv/compression/dot_products.h"
#include "kv/compression/future_queries.h"

namespace kvtide::kv {
namespace {

/// Mean over the group of softmax(mu.k / sqrt(d) + k' S k / 2d), [position after the sinks].
Eigen::VectorXf expected_weights(const HeadTensors& head, const ScorerContext& context, std::int64_t sinks) {
  const std::int64_t size = context.num_positions;
  const auto head_dim = static_cast<float>(head.head_dim());
  const Eigen::MatrixXf rotation = mean_rotation(head.rope, head.head_dim(), size, context.integer("future"));
  const RowMatrix keys = head.k_post.middleRows(sinks, size - sinks);
  Eigen::VectorXf weights = Eigen::VectorXf::Zero(keys.rows());
  for (const RowMatrix& queries : queries_before_rope(head, sinks, size, "expected_attention")) {
    const Eigen::VectorXf mean = queries.colwise().sum().transpose() / static_cast<float>(queries.rows());
    Eigen::VectorXf logits = keys * (rotation * mean) / std::sqrt(head_dim);
    if (context.integer("covariance") == 1) {
      const RowMatrix centred = queries.rowwise() - mean.transpose();
      const Eigen::MatrixXf spread = (gram(centred) / static_cast<double>(queries.rows())).cast<float>();
      const RowMatrix covariance = rotation * spread * rotation.transpose();
      const RowMatrix products = row_products(keys, covariance);
      logits += products.cwiseProduct(keys).rowwise().sum() / head_dim / 2;
    }
    const double total = exponentials(logits.data(), logits.size());
    weights += logits * static_cast<float>(1 / total / static_cast<double>(head.group_size));
  }
  return weights;
}

LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  const std::int64_t sinks = std::min(context.integer("sinks"), context.num_positions);
  const std::int64_t size = context.num_positions;
  LayerScores result;
  double largest = 0;
  for (const HeadTensors& head : layer) {
    std::vector<double>& of_head = result.emplace_back(static_cast<std::size_t>(size), 0.0);
    if (sinks == size) continue;
    const Eigen::VectorXf weights = expected_weights(head, context, sinks);
    for (std::int64_t position = sinks; position < size; ++position) {
      double score = static_cast<double>(weights[position - sinks]);
      if (context.integer("value_norm") == 1) {
        score = (score + context.number("epsilon")) * static_cast<double>(head.v.row(position).norm());
      }
      of_head[static_cast<std::size_t>(position)] = score;
      largest = std::max(largest, score);
    }
  }
  for (auto& of_head : result) std::fill_n(of_head.begin(), sinks, largest + 1);
  return result;
}

}  // namespace

ScorerEntry expected_attention_scorer() {
  return {"expected_attention",
          "attention expected from queries to come, Gaussian as those so far, times |v|",
          "arXiv 2510.00636",
          {{"future", 512, 1, 1 << 20, true, "positions whose rotation is averaged"},
           {"sinks", 4, 0, 1 << 20, true, "first positions that stay"},
           {"covariance", 1, 0, 1, true, "1: with the variance term"},
           {"value_norm", 1, 0, 1, true, "1: times |v|"},
           {"epsilon", 0, 0, 1e6, false, "added to the weight before the product"}},
          {.queries = ScorerNeeds::Queries::all, .values = true, .flops_per_key_element = 128},
          &scores};
}

}  // namespace kvtide::kv

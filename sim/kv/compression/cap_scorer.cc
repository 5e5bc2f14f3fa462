#include "kv/compression/cap_scorer.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "kv/compression/dot_products.h"
#include "kv/compression/future_queries.h"

namespace kvtide::kv {
namespace {

constexpr float kSmallestNorm = 1e-12F;

/// Leverage of the values under the weights of one query head, [position after the sinks].
Eigen::VectorXf weighted_leverage(const RowMatrix& directions, const RowMatrix& values, const Eigen::VectorXf& anchor,
                                  float tau, float epsilon) {
  Eigen::VectorXf weights = (directions * anchor).cwiseMax(-1.0F).cwiseMin(1.0F) * tau;
  weights = (weights.array() - weights.maxCoeff()).exp();
  const RowMatrix scaled = (weights.array() + epsilon).sqrt().matrix().asDiagonal() * values;
  Eigen::MatrixXd capacity = gram(scaled);
  capacity.diagonal().array() += 1;
  const Eigen::MatrixXd inverse = capacity.llt().solve(Eigen::MatrixXd::Identity(values.cols(), values.cols()));
  const RowMatrix turned = row_products(values, inverse.cast<float>());
  return weights.cwiseProduct(turned.cwiseProduct(values).rowwise().sum());
}

LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  const std::int64_t size = context.num_positions;
  const std::int64_t sinks = std::min(context.integer("sinks"), size);
  LayerScores result;
  double largest = 0;
  for (const HeadTensors& head : layer) {
    std::vector<double>& of_head = result.emplace_back(static_cast<std::size_t>(size), 0.0);
    if (sinks == size) continue;
    const Eigen::MatrixXf rotation = mean_rotation(head.rope, head.head_dim(), size, context.integer("future"));
    RowMatrix directions = head.k_post.middleRows(sinks, size - sinks);
    directions.array().colwise() /= directions.rowwise().norm().cwiseMax(kSmallestNorm).array();
    const RowMatrix values = head.v.middleRows(sinks, size - sinks);
    Eigen::VectorXf sum = Eigen::VectorXf::Zero(size - sinks);
    for (const RowMatrix& queries : queries_before_rope(head, sinks, size, "cap")) {
      Eigen::VectorXf anchor = rotation * queries.colwise().sum().transpose() / static_cast<float>(queries.rows());
      anchor /= std::max(anchor.norm(), kSmallestNorm);
      sum += weighted_leverage(directions, values, anchor, static_cast<float>(context.number("tau")),
                               static_cast<float>(context.number("epsilon")));
    }
    for (std::int64_t position = sinks; position < size; ++position) {
      const double score = static_cast<double>(sum[position - sinks]) / static_cast<double>(head.group_size);
      of_head[static_cast<std::size_t>(position)] = score;
      largest = std::max(largest, score);
    }
  }
  for (auto& of_head : result) std::fill_n(of_head.begin(), sinks, largest + 1);
  return result;
}

}  // namespace

ScorerEntry cap_scorer() {
  return {"cap",
          "leverage of the value, weighted by the key's likeness to the mean query to come",
          "arXiv 2604.25975",
          {{"tau", 5, 0, 1e3, false, "sharpness of the weights"},
           {"future", 512, 1, 1 << 20, true, "positions whose rotation is averaged"},
           {"sinks", 4, 0, 1 << 20, true, "first positions that stay"},
           {"epsilon", 1e-6, 0, 1, false, "added to the weights"}},
          {.queries = ScorerNeeds::Queries::all, .values = true, .flops_per_key_element = 256},
          &scores};
}

}  // namespace kvtide::kv

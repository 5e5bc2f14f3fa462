#include "kv/compression/cap_scorer.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "kv/compression/dot_products.h"
#include "kv/compression/future_queries.h"
#include "kv/compression/row_statistics.h"

namespace kvtide::kv {
namespace {

constexpr float kSmallestNorm = 1e-12F;

/// What all query heads of a group share, [position after the sinks].
struct Positions {
  Eigen::Ref<const RowMatrix> keys;
  Eigen::Ref<const RowMatrix> values;
  std::vector<float> key_norms;
};

/// Adds the leverage of the values under the weights of one query head, which looks along `anchor`.
void add_weighted_leverage(const Positions& positions, const Eigen::VectorXf& anchor, float tau, float epsilon,
                           std::vector<float>& sums) {
  const std::int64_t count = positions.keys.rows();
  std::vector<float> weights = single_row_products(anchor.data(), positions.keys, count, 1.0F);
  for (std::size_t index = 0; index < weights.size(); ++index) {
    weights[index] = std::clamp(weights[index] / positions.key_norms[index], -1.0F, 1.0F) * tau;
  }
  exponentials(weights.data(), count);
  std::vector<float> roots(weights.size());
  for (std::size_t index = 0; index < roots.size(); ++index) roots[index] = std::sqrt(weights[index] + epsilon);
  Eigen::MatrixXd capacity = gram(positions.values, {}, roots);
  capacity.diagonal().array() += 1;
  const std::int64_t channels = positions.values.cols();
  const Eigen::MatrixXd inverse = capacity.llt().solve(Eigen::MatrixXd::Identity(channels, channels));
  const std::vector<float> forms = quadratic_forms(positions.values, inverse);
  for (std::size_t index = 0; index < sums.size(); ++index) sums[index] += weights[index] * forms[index];
}

LayerScores scores(const LayerTensors& layer, const ScorerContext& context) {
  const std::int64_t size = context.num_positions;
  const std::int64_t sinks = std::min(context.integer("sinks"), size);
  LayerScores result;
  double largest = 0;
  for (const HeadTensors& head : layer) {
    std::vector<double>& of_head = result.emplace_back(static_cast<std::size_t>(size), 0.0);
    if (sinks == size) continue;
    const MeanRotation rotation = mean_rotation(head.rope, head.head_dim(), size, context.integer("future"));
    const std::int64_t count = size - sinks;
    Positions positions{head.k_post.middleRows(sinks, count), head.v.middleRows(sinks, count), {}};
    positions.key_norms = squared_lengths(positions.keys, count);
    for (float& norm : positions.key_norms) norm = std::max(std::sqrt(norm), kSmallestNorm);
    const std::vector<float> even(static_cast<std::size_t>(count), 1.0F);
    std::vector<float> sum(even.size(), 0.0F);
    visit_queries_before_rope(head, sinks, size, "cap", [&](const Eigen::Ref<const RowMatrix>& queries) {
      Eigen::VectorXf anchor =
          rotation.of_vector((weighted_sum(queries, even) / static_cast<double>(queries.rows())).cast<float>());
      anchor /= std::max(anchor.norm(), kSmallestNorm);
      add_weighted_leverage(positions, anchor, static_cast<float>(context.number("tau")),
                            static_cast<float>(context.number("epsilon")), sum);
    });
    for (std::int64_t position = sinks; position < size; ++position) {
      const double score =
          static_cast<double>(sum[static_cast<std::size_t>(position - sinks)]) / static_cast<double>(head.group_size);
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

#include "kv/compression/expected_attention_scorer.h"

#include <algorithm>
#include <cmath>

#include "kv/compression/dot_products.h"
#include "kv/compression/future_queries.h"
#include "kv/compression/row_statistics.h"

namespace kvtide::kv {
namespace {

/// Mean over the group of softmax(mu.k / sqrt(d) + k' S k / 2d), [position after the sinks].
std::vector<float> expected_weights(const HeadTensors& head, const ScorerContext& context, std::int64_t sinks) {
  const std::int64_t size = context.num_positions;
  const std::int64_t count = size - sinks;
  const auto head_dim = static_cast<float>(head.head_dim());
  const MeanRotation rotation = mean_rotation(head.rope, head.head_dim(), size, context.integer("future"));
  const auto keys = head.k_post.middleRows(sinks, count);
  const std::vector<float> even(static_cast<std::size_t>(count), 1.0F);
  std::vector<float> weights(even.size(), 0.0F);
  visit_queries_before_rope(head, sinks, size, "expected_attention", [&](const Eigen::Ref<const RowMatrix>& queries) {
    const Eigen::VectorXf mean = (weighted_sum(queries, even) / static_cast<double>(count)).cast<float>();
    const Eigen::VectorXf turned = rotation.of_vector(mean);
    std::vector<float> logits = single_row_products(turned.data(), keys, count, 1 / std::sqrt(head_dim));
    if (context.integer("covariance") == 1) {
      const auto centre = std::span(mean.data(), static_cast<std::size_t>(mean.size()));
      const Eigen::MatrixXd spread = gram(queries, centre) / static_cast<double>(count);
      const std::vector<float> forms = quadratic_forms(keys, rotation.of_covariance(spread));
      for (std::size_t index = 0; index < logits.size(); ++index) logits[index] += forms[index] / head_dim / 2;
    }
    const double total = exponentials(logits.data(), count);
    const auto share = static_cast<float>(1 / total / static_cast<double>(head.group_size));
    for (std::size_t index = 0; index < logits.size(); ++index) weights[index] += logits[index] * share;
  });
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
    const std::vector<float> weights = expected_weights(head, context, sinks);
    const bool has_value_norm = context.integer("value_norm") == 1;
    const double epsilon = context.number("epsilon");
    const std::vector<float> squares = squared_lengths(head.v, has_value_norm ? size : 0);
    for (std::int64_t position = sinks; position < size; ++position) {
      double score = static_cast<double>(weights[static_cast<std::size_t>(position - sinks)]);
      if (has_value_norm) {
        score = (score + epsilon) * static_cast<double>(std::sqrt(squares[static_cast<std::size_t>(position)]));
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
